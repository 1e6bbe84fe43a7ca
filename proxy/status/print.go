package status

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// Format is how Print writes a status.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
)

// ParseFormat parses the name of a format.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case Table, Wide, JSON:
		return f, nil
	}
	return "", fmt.Errorf("output %q: want table, wide or json", name)
}

// View is what Print shows, and on what.
type View struct {
	Format  Format
	Service string // "name" or "namespace/name"; "" = all
	Width   int    // of the terminal; 0 = any
	Colours bool
	Digest  bool // show the digests of virtual servers
}

// Endpoints reports whether the view needs a status with its endpoints.
func (v View) Endpoints() bool { return v.Service != "" || v.Format == JSON }

// Print writes a status. It returns an error if the view asks for a service that
// does not exist.
func Print(w io.Writer, st Status, v View) error {
	if v.Service != "" {
		st.Services = st.named(v.Service)
		if len(st.Services) == 0 {
			return &NoServiceError{v.Service}
		}
	}
	if v.Format == JSON {
		return st.writeJSON(w)
	}
	p := &page{st: &st, View: v}
	if v.Digest {
		p.digestPage()
		_, err := io.WriteString(w, p.String())
		return err
	}
	if v.Service == "" {
		p.overview()
	}
	for i := range st.Services {
		if v.Service != "" {
			p.service(&st.Services[i])
		}
	}
	if v.Service != "" && len(st.Problems) > 0 {
		p.list("degraded", screen.Bad, []string{"svcproxy as a whole: svcproxy status says why"})
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// writeJSON writes a status as JSON.md describes it. It is the one JSON of all views.
func (st *Status) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(st)
}

// named returns the services of a name. A name without a namespace matches in all
// namespaces.
func (st *Status) named(name string) []Service {
	var found []Service
	for _, s := range st.Services {
		if sources.SameName(s.Name, name) || !strings.Contains(name, "/") && strings.HasSuffix(s.Name, "/"+name) {
			found = append(found, s)
		}
	}
	return found
}
