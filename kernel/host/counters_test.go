package host_test

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
)

// TestCountersBesideTheLoop reads counters with a handle of their own as a table grows,
// with one dump each time.
func TestCountersBesideTheLoop(t *testing.T) {
	k := open(t, host.Options{Sysctls: ipvs.SysctlNames})
	var w wire
	c, err := host.OpenCounters(w.dialer(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, services := range []int{10, 1000} {
		tab := table(services, 2)
		for i := range tab.Services.Len() { // IPv4 alone: IPv6 takes another dump if another namespace hides entries from the text
			tab.Services.At(i).ClusterIPs, tab.Services.At(i).Endpoints = tab.Services.At(i).ClusterIPs[:1], tab.Services.At(i).Endpoints[:2]
		}
		have := read(t, k)
		if err := k.Apply(t.Context(), plan.Once(state(tab, have.Node), have)); err != nil {
			t.Fatal(err)
		}
		w.reset(-1)
		r, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Virtuals) != services || len(r.Reals) != 2*services || r.MaxFlows == 0 {
			t.Errorf("%d virtual and %d real servers, at most %d flows", len(r.Virtuals), len(r.Reals), r.MaxFlows)
		}
		dumps := 0
		for _, n := range w.dumps {
			dumps += n
		}
		if dumps != 1 {
			t.Errorf("%d services: %d dumps", services, dumps)
		}
	}
}
