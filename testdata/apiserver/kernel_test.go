package apiserver_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// Objects of every kind from a real API server give the same kernel state, read by independent tools,
// as the same services in services.toml. Clients are answered.
func TestKernelServesWhatObjectsSay(t *testing.T) {
	v := visiting(t)
	if v == nil {
		runInGuest(t, newCluster(t), 0)
		return
	}
	var s scenario
	for _, s = range scenarios(t) {
		if s.name == "every-kind" {
			break
		}
	}
	n := v.newNode(t)
	n.fromFile(t, s.services+apiService)
	want, err := n.Lab.Node.Read()
	must(t, err)
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: exit code %d, %v: %s", code, err, out)
	}

	must(t, v.admin.Apply(s.objects))
	n.fromAPI(t, v, "")
	n.awaitReading(t, want)
	n.wantTraffic(t)

	// Restarted without its API server it changes nothing until the server is back.
	must(t, n.Stop())
	must(t, n.Lab.Node.IP("route add unreachable 10.0.2.2"))
	mark := n.Log.Len()
	must(t, n.Start())
	_, err = n.Wait(mark, `cannot reach https://10\.0\.2\.2`)
	must(t, err)
	n.awaitReading(t, want)
	n.wantTraffic(t)
	must(t, n.Lab.Node.IP("route del unreachable 10.0.2.2"))
	must(t, v.admin.Apply(strings.Replace(s.objects, "[10.2.3.10], nodeName: n3", "[10.2.2.10], nodeName: n3", 1)))
	must(t, lab.Eventually(patience, func() error {
		a, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.23:80"))
		if err == nil && a.Backend != "pod2" {
			err = fmt.Errorf("still %s", a.Backend)
		}
		return err
	}))
}

// wantTraffic asks every kind of address of the scenario every-kind.
func (n node) wantTraffic(t *testing.T) {
	t.Helper()
	for _, q := range []struct {
		network, to string
		backends    []string // each of them answers, and no other
	}{
		{"tcp", "10.96.0.20:80", []string{"pod1", "pod2"}},
		{"udp", "10.96.0.20:80", []string{"pod1", "pod2"}},
		{"tcp", "[fd00:96::20]:80", []string{"pod1"}},
		{"tcp", "198.51.100.80:80", []string{"pod1", "pod2"}},
		{"tcp", "203.0.113.9:80", []string{"pod1", "pod2"}},
		{"tcp", "192.0.2.1:30080", []string{"pod1", "pod2"}},
		{"udp", "192.0.2.1:30080", []string{"pod1", "pod2"}},
		{"tcp", "10.96.0.21:80", []string{"pod1"}},
		{"tcp", "198.51.100.81:80", []string{"pod1"}},
		{"tcp", "192.0.2.1:30081", []string{"pod1"}},
		{"tcp", "10.96.0.23:80", []string{"pod3"}},
	} {
		who := map[string]int{}
		for range 4 {
			a, err := n.Client.Ask(q.network, netip.MustParseAddrPort(q.to))
			if err != nil {
				t.Errorf("%s over %s: %v", q.to, q.network, err)
				break
			}
			who[a.Backend]++
		}
		for _, b := range q.backends {
			if who[b] != 4/len(q.backends) {
				t.Errorf("%s over %s was answered by %v, want each of %v", q.to, q.network, who, q.backends)
			}
		}
	}

	// One backend has the client for as long as it comes.
	sticky := netip.MustParseAddrPort("10.96.0.22:80")
	first, err := n.Client.Ask("tcp", sticky)
	must(t, err)
	for range 4 {
		if a, err := n.Client.Ask("tcp", sticky); err != nil || a.Backend != first.Backend {
			t.Errorf("the client was with %s and is with %s, %v", first.Backend, a.Backend, err)
		}
	}
}
