package apiserver_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
	source "github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
)

// apiService is the API server's own service, which it makes by itself.
const apiService = `
[services.kubernetes]
clusterIP = "10.96.0.1"
ports = [ { name = "https", port = 443 } ]
`

// A scenario is the same table twice: as objects and as services.toml.
type scenario struct{ name, objects, services string }

func scenarios(t *testing.T) []scenario {
	t.Helper()
	paths, err := filepath.Glob("scenario/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	var list []scenario
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		must(t, err)
		if len(archive.Files) != 2 || archive.Files[0].Name != "objects.yaml" || archive.Files[1].Name != "services.toml" || len(archive.Comment) == 0 {
			t.Fatalf("%s: want a comment, objects.yaml and services.toml", path)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		list = append(list, scenario{name, string(archive.Files[0].Data), string(archive.Files[1].Data)})
	}
	return list
}

// Objects in a real API server make the kernel the same, byte for byte, as services.toml does.
func TestObjectsAreAsServedAsFiles(t *testing.T) {
	c := newCluster(t)
	f := follow(t, source.Options{Kubeconfig: kubeconfig(t, c, c.URL), ContentType: protobuf})
	// These see every table in turn, as those of the loop do.
	var frontends frontend.Cache
	var m ipvs.Mode
	var before sources.Table
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			table, _, problems := file.Decode("services.toml", []byte(s.services+apiService))
			for _, p := range problems {
				t.Error(p)
			}
			want := stateText(t, table)
			mark := f.mark()
			must(t, c.Admin.Apply(s.objects))
			defer clearObjects(t, c)
			var last string
			defer func() {
				if t.Failed() {
					t.Log(difference(want, last))
				}
			}()
			f.await(t, mark, "the state that services.toml gives", func(e emission) bool {
				if e.none() {
					return false
				}
				last = stateText(t, e.Table)
				now := sources.Merged{Table: e.Table, Delta: sources.Compare(before, e.Table)}
				before = e.Table
				if patched := m.State(frontends.List(now, nodeN1(t), config.Frontends), config).String(); !strings.HasPrefix(last, patched) {
					t.Error("a patched state differs from one made at once:\n", difference(last, patched))
				}
				return last == want
			})
		})
	}
}

// config has the defaults.
var config = mode.Config{
	Frontends: frontend.Config{IPv6: true, Scheduler: "rr"},
	Names:     kernel.DefaultNames, MasqueradeBit: 14, VIPPing: true,
}

// nodeN1 is a node in zone a.
func nodeN1(t *testing.T) kernel.Node {
	t.Helper()
	const text = `
#: node n1
#: zone a
#: address 192.0.2.1/24 dev eth0
#: address 2001:db8::1/64 dev eth0
#: primary 192.0.2.1
#: primary 2001:db8::1
#: release 6.1
`
	o, err := kernel.ParseObserved(text)
	must(t, err)
	return o.Node
}

// stateText returns the state for a table and its health checks.
func stateText(t *testing.T, table sources.Table) string {
	t.Helper()
	f := frontend.List(table, nodeN1(t), config.Frontends)
	state := ipvs.State(f, config).String()
	for _, h := range f.HealthChecks() {
		h.Service = "" // what a person reads: an API server's has the namespace, a file's may have none
		state += fmt.Sprintf("health check %+v\n", h)
	}
	return state
}

// clearObjects removes the objects of a scenario from the namespaces they are in.
func clearObjects(t *testing.T, c *apiserver.Cluster) {
	t.Helper()
	for _, namespace := range []string{"", "shop"} {
		for _, kind := range [][2]string{{"v1", "Service"}, {"discovery.k8s.io/v1", "EndpointSlice"}} {
			must(t, c.Admin.Clear(kind[0], kind[1], namespace))
		}
	}
	must(t, c.Admin.Clear("v1", "Node", ""))
}

// difference lists the lines that only one of two texts has.
func difference(want, got string) string {
	var b strings.Builder
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, line := range w {
		if !slices.Contains(g, line) {
			fmt.Fprintln(&b, "want", line)
		}
	}
	for _, line := range g {
		if !slices.Contains(w, line) {
			fmt.Fprintln(&b, "got ", line)
		}
	}
	return b.String()
}
