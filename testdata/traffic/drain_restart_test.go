package traffic

import (
	"testing"
	"time"
)

// The kernel remembers a drain, so svcproxy may end and start while one is open.
func TestDrainGoesOnOverARestart(t *testing.T) {
	const timeout = 15 * time.Second // for a start, its sync and what is read after it
	n := newNode(t, `ipvs.drainTimeout = "15s"`)
	const both, one = `["10.2.1.10", "10.2.2.10"]`, `["10.2.2.10"]`
	table := func(web, returning string) string {
		return clusterIP("web", "10.96.0.20", web) + clusterIP("returning", "10.96.0.21", returning)
	}
	n.start(t, table(both, both))
	drained, returned := n.chat(t, "10.96.0.20:80", "pod1"), n.chat(t, "10.96.0.21:80", "pod1")
	n.serve(t, table(one, one))

	var restarted span
	for _, end := range []struct {
		how string
		end func()
	}{
		{"orderly", func() { must(t, n.Stop()) }},
		{"kill -9", n.Kill},
	} {
		end.end()
		wantWeights(t, n, end.how, "0", "0")
		mark := n.Log.Len()
		// Another service makes the first sync one that changes something.
		must(t, n.Serve(table(one, one)+clusterIP("after", "10.96.0.22", `["10.2.3.10"]`)))
		if end.how != "orderly" {
			must(t, n.Serve(table(one, both)))
		}
		restarted = timed(func() {
			must(t, n.Start())
			n.synced(t, mark)
		})
	}
	wantWeights(t, n, "after the restarts", "0", "1")
	for range 4 {
		if a := ask(t, n.Client, "tcp", "10.96.0.20:80"); a.Backend != "pod2" {
			t.Errorf("a new connection went to %q, which still drains", a.Backend)
		}
	}
	drained.wantReset(t, restarted, timeout) // its deadline starts again
	returned.wantAlive(t)
}

// wantWeights wants pod1's weight in each service.
func wantWeights(t *testing.T, n node, when string, weights ...string) {
	t.Helper()
	virtuals := []string{"10.96.0.20:80", "10.96.0.21:80"}
	for i, want := range weights {
		if w := weightOf(t, n, virtuals[i], "10.2.1.10:7000"); w != want {
			t.Errorf("%s: weight %q of 10.2.1.10 in %s, want %s", when, w, virtuals[i], want)
		}
	}
}
