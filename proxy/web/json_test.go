package web

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// JSON.md names what /status.json has more than a status.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../status/JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[answer](), reflect.TypeFor[status.Summary](), reflect.TypeFor[status.PastView](), reflect.TypeFor[status.PastService](),
	} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name != "" && !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("field %s is not in JSON.md", name)
			}
		}
	}
}
