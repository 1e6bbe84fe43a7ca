package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// classes are the page's CSS classes of the styles; other styles have none.
var classes = map[screen.Style]string{screen.Good: "good", screen.Warn: "warn", screen.Bad: "bad"}

// lists is the JavaScript module that tells page.js how each state, kind of event
// and word of health looks, and what people call a source.
func lists() []byte {
	var b bytes.Buffer
	export(&b, "stateLooks", status.States())
	export(&b, "endpointLooks", status.EndpointStates())
	export(&b, "eventLooks", events.Kinds())
	export(&b, "healthLooks", status.HealthStates())
	export(&b, "causeLooks", status.HealthCauses())
	export(&b, "modeLooks", status.HealthModes())
	constant(&b, "sourceNames", map[string]string{sources.Files: strings.TrimPrefix(sources.WordsFor(sources.Files).Name,
		"the ")})
	return b.Bytes()
}

// export writes one constant: an object with a CSS class for each value.
func export[T interface {
	~string
	Style() screen.Style
}](b *bytes.Buffer, name string, list []T) {
	looks := make(map[T]string, len(list))
	for _, v := range list {
		looks[v] = classes[v.Style()]
	}
	constant(b, name, looks)
}

func constant[T ~string](b *bytes.Buffer, name string, values map[T]string) {
	text, _ := json.Marshal(values) // a map of strings always has JSON
	fmt.Fprintf(b, "export const %s = %s;\n", name, text)
}
