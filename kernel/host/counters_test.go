package host_test

import (
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/rules"
)

// TestCountersBesideTheLoop reads counters on their own handle as a table grows,
// with one dump each time.
func TestCountersBesideTheLoop(t *testing.T) {
	k := open(t, host.Options{Sysctls: rules.SysctlNames})
	var w wire
	c, err := host.OpenCounters(w.dialer())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, services := range []int{10, 1000} {
		have := read(t, k)
		if err := k.Apply(t.Context(), kernel.Diff(state(table(services, 2), have.Node), have)); err != nil {
			t.Fatal(err)
		}
		r, dumps := countAlone(t, c, &w)
		if v6 := services / 10; len(r.Virtuals) != services+v6 || len(r.Reals) != 2*services+v6 || r.MaxFlows == 0 {
			t.Errorf("%d virtual and %d real servers, at most %d flows", len(r.Virtuals), len(r.Reals), r.MaxFlows)
		}
		if dumps != 1 {
			t.Errorf("%d services: %d dumps", services, dumps)
		}
	}
}

// countAlone reads counters when the namespaces of tests before this one are
// gone, which the kernel sees to in its own time: while they have virtual servers
// some of ours are asked for one by one.
func countAlone(t *testing.T, c *host.Counters, w *wire) (r kernel.Counters, dumps int) {
	for deadline, tick := time.Now().Add(30*time.Second), time.Tick(100*time.Millisecond); ; <-tick {
		w.reset(-1)
		var err error
		if r, err = c.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		dumps = 0
		for _, n := range w.dumps {
			dumps += n
		}
		if dumps == 1 || time.Now().After(deadline) {
			return r, dumps
		}
	}
}
