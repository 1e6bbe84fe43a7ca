package manifest

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
)

// FuzzDecode: any text is read or refused. The table is sorted, each service has its origin, and no endpoint is twice in
// it.
func FuzzDecode(f *testing.F) {
	paths, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, _ := Decode("f.yaml", data)
		for _, n := range o.Nodes {
			n.Node()
		}
		table, _ := Table(o, "n1")
		again, _ := Table(o, "n1")
		for i, s := range table.Services.All() {
			if s.Origin.Line == 0 || s.Namespace == "" {
				t.Errorf("%s is from %q", s.FullName(), s.Origin)
			}
			if i > 0 && s.FullName() == table.Services.At(i-1).FullName() {
				t.Errorf("%s is there twice", s.FullName())
			}
			distinctEndpoints(t, *s)
			if len(s.Endpoints) != len(again.Services.At(i).Endpoints) {
				t.Errorf("%s is another one the second time", s.FullName())
			}
		}
		sources.Validate(table)
	})
}

func distinctEndpoints(t *testing.T, s sources.Service) {
	for i, e := range s.Endpoints {
		if len(e.Ports) == 0 {
			t.Errorf("%s: endpoint %s has no port", s.FullName(), e.Addr)
		}
		if i == 0 {
			continue
		}
		before := s.Endpoints[i-1]
		if e.Addr.Less(before.Addr) {
			t.Errorf("%s: endpoint %s after %s", s.FullName(), e.Addr, before.Addr)
		}
		if e.Addr == before.Addr && slices.ContainsFunc(e.Ports, func(p sources.EndpointPort) bool { return slices.Contains(before.Ports, p) }) {
			t.Errorf("%s: endpoint %s is there twice", s.FullName(), e.Addr)
		}
	}
}
