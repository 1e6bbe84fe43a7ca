package traffic

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// At no moment a VIP leads to a port of the host: not while VIPs come and go, not after a kill at any time, a restart, or a
// cleanup. Clients ask for port 22 all the time.
func TestHostPortsStayClosed(t *testing.T) {
	n := newNode(t, "")
	sshd, err := n.Lab.Node.Listen(22)
	must(t, err)
	defer sshd.Close()
	more := clusterIP("more", "10.96.0.21", allV4)
	n.start(t, web)
	s := newSampler(t)
	for _, vip := range []string{"10.96.0.20", "203.0.113.9", "198.51.100.80", "fd00:96::20", "2001:db8:9::9", "2001:db8:80::80", "10.96.0.21"} {
		for _, from := range []*lab.Host{n.Client, n.Backend("pod1").Host} {
			s.sample(from, netip.MustParseAddr(vip))
		}
	}
	serve := func(services string) {
		t.Helper()
		must(t, n.Serve(services))
		n.applied(t, "another file")
	}
	rounds, _ := endures(t, 0, 2, 20)
	for i := range rounds {
		serve(web + more)
		serve(more)
		must(t, n.Serve(web))
		time.Sleep(time.Duration(i) * 30 * time.Millisecond) // a kill in the middle of a plan
		n.Kill()
		must(t, n.Start())
		n.applied(t, "killed")
		serve(web + more)
		must(t, n.Stop())
		if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
			t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
		}
		must(t, n.Start())
		serve(web)
	}
	n.wantWeb(t, "in the end")
	s.wantClosed(t)
}

// A sampler asks for port 22 of addresses again and again.
type sampler struct {
	ctx  context.Context
	end  context.CancelFunc
	asks sync.WaitGroup

	mu     sync.Mutex
	counts map[string]int // by how a question ended
}

func newSampler(t *testing.T) *sampler {
	s := &sampler{counts: map[string]int{}}
	s.ctx, s.end = context.WithCancel(t.Context())
	t.Cleanup(s.asks.Wait)
	t.Cleanup(s.end)
	return s
}

func (s *sampler) sample(from *lab.Host, vip netip.Addr) {
	between := 2 * time.Millisecond
	if emulated() {
		between = pace
	}
	s.asks.Go(func() {
		for ; s.ctx.Err() == nil; time.Sleep(between) {
			end := "open"
			if err := from.Try(netip.Addr{}, netip.AddrPortFrom(vip, 22), between+200*time.Millisecond); err != nil {
				end = err.Error()[strings.LastIndex(err.Error(), ": ")+1:]
			}
			s.mu.Lock()
			s.counts[end]++
			if end == "open" {
				s.counts[fmt.Sprintf("port 22 of %s was open to %s at %s", vip, from.Name, time.Now().Format(time.RFC3339Nano))]++
			}
			s.mu.Unlock()
		}
	})
}

// wantClosed ends the questions, of which none may have been answered.
func (s *sampler) wantClosed(t *testing.T) {
	t.Helper()
	s.end()
	s.asks.Wait()
	if s.counts["open"] > 0 || s.counts[" connection refused"] == 0 {
		t.Errorf("%v", s.counts)
	}
	t.Logf("%v", s.counts)
}
