package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// trackedByHand is a table of tracked connections. It counts how often it is listed.
type trackedByHand struct {
	mu          sync.Mutex
	list        []kernel.Asked
	dumps, full int
	down        map[netip.AddrPort]bool // that count as down
	err         error                   // of each listing
}

func (t *trackedByHand) TCP(f kernel.Family, waiting bool, each func(kernel.Asked)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dumps++; !waiting {
		t.full++
	}
	for _, c := range t.list {
		if c.Key.Virtual.Family() == f && !(waiting && c.Answered) {
			each(c)
		}
	}
	return t.err
}

func (t *trackedByHand) set(down map[netip.AddrPort]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down = down
}

// asked is a connection of a client, a number, to an endpoint of the service at 10.96.0.1.
func asked(client byte, to string, answered bool) kernel.Asked {
	virtual := kernel.VirtualKey{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Proto: kernel.TCP}
	return kernel.Asked{
		Key:    kernel.RealKey{Virtual: virtual, Addr: netip.MustParseAddrPort(to)},
		Client: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, client}), 1024), Answered: answered,
		Left: 2 * time.Minute,
	}
}

// watched returns the fronts of a service with some endpoints, as a change makes them.
func watched(change func(s *sources.Service)) *frontend.Frontends {
	s := sources.Service{Namespace: "default", Name: "web", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports: []sources.Port{{Name: "http", Protocol: sources.TCP, Port: 80}}}
	for _, a := range []string{"10.2.1.10", "10.2.2.10"} {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.MustParseAddr(a), Ready: true, Weight: 1,
			Ports: []sources.EndpointPort{{Name: "http", Protocol: sources.TCP, Port: 8080}}})
	}
	change(&s)
	return frontend.List(sources.Table{Services: sources.ServicesOf(s)}, kernel.Node{}, frontend.Config{})
}

// look runs the watch for some minutes of a synctest bubble and returns the conditions at their end.
func (t *trackedByHand) look(f *frontend.Frontends, entries uint64, minutes time.Duration) []condition.Condition {
	board := new(condition.Board)
	w := answersWatch{t, func() machine.Conntrack {
		return machine.Conntrack{Entries: entries, SynSent: 2 * time.Minute}
	}, func() *frontend.Frontends { return f }, board, t.set, slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(context.Background(), minutes*time.Minute)
	defer cancel()
	w.run(ctx)
	return board.List()
}

func TestWatchOfAnswers(t *testing.T) {
	const silent, other = "10.2.1.10:8080", "10.2.2.10:8080"
	waiting := []kernel.Asked{asked(1, silent, false), asked(2, silent, false), asked(3, silent, false), asked(4, other, true)}
	old := asked(3, silent, false)
	old.Left = time.Minute
	stranger := waiting[0]
	stranger.Key.Virtual.Port = 81
	for name, c := range map[string]struct {
		change func(*sources.Service)
		list   []kernel.Asked
		want   string
	}{
		"silent":             {func(*sources.Service) {}, waiting, "10.2.1.10:8080: it does not answer clients of web: 3 connections wait"},
		"two wait":           {func(*sources.Service) {}, waiting[1:], ""},
		"one gave up":        {func(*sources.Service) {}, append(waiting[:2:2], old), ""},
		"no service there":   {func(*sources.Service) {}, append(waiting[1:3:3], stranger), ""},
		"weight 0":           {func(s *sources.Service) { s.Endpoints[0].Weight = 0 }, waiting, ""},
		"down, and spared":   {func(s *sources.Service) { s.Endpoints[0].Spared = true }, waiting, ""},
		"no longer endpoint": {func(s *sources.Service) { s.Endpoints = s.Endpoints[1:] }, waiting, ""},
		"direct":             {func(s *sources.Service) { s.Forward = sources.Direct }, waiting, ""},
		"tunnel":             {func(s *sources.Service) { s.Forward = sources.IPIP }, waiting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := (&trackedByHand{list: c.list}).look(watched(c.change), 9, 2)
				if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].String()[:len(c.want)] != c.want) {
					t.Errorf("%v, want %q", got, c.want)
				}
			})
		})
	}
}

// With passive a silent endpoint counts as down, and is let in again when nobody could ask it for a while, even if
// connections cannot be listed by then.
func TestSilentEndpointsAreLetInAgain(t *testing.T) {
	t.Run("nobody asks", func(t *testing.T) { letInAgain(t, nil) })
	t.Run("no connection is listed", func(t *testing.T) { letInAgain(t, errors.New("too busy")) })
}

func letInAgain(t *testing.T, err error) {
	synctest.Test(t, func(t *testing.T) {
		h := trackedByHand{}
		for n := range byte(3) {
			h.list = append(h.list, asked(n, "10.2.1.10:8080", false))
		}
		go h.look(watched(func(s *sources.Service) { s.HealthCheck = &sources.HealthCheck{Passive: true} }), 9, 10)
		after := func(d time.Duration, down bool) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.down[netip.MustParseAddrPort("10.2.1.10:8080")] != down {
				t.Errorf("down: %v", h.down)
			}
		}
		after(15*time.Second, false)
		after(45*time.Second, true)
		h.mu.Lock()
		h.list, h.err = nil, err // it gets no connections
		h.mu.Unlock()
		after(answersRest-10*time.Second, true)
		after(20*time.Second, false)
		time.Sleep(time.Hour)
	})
}

// Connections are listed six times a minute, and once from 10,000 on; those that were answered only while an endpoint
// may be silent.
func TestCostOfAnswers(t *testing.T) {
	for _, c := range []struct {
		entries     uint64
		silent      bool
		dumps, full int
	}{{9_999, false, 60, 0}, {9_999, true, 60, 59}, {10_000, false, 10, 0}, {10_000, true, 10, 9}} {
		t.Run(fmt.Sprintf("%d connections, silent %t", c.entries, c.silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := trackedByHand{}
				if c.silent {
					for n := range byte(3) {
						h.list = append(h.list, asked(n, "10.2.1.10:8080", false))
					}
				}
				h.look(watched(func(*sources.Service) {}), c.entries, 10)
				if h.dumps != c.dumps || h.full != c.full {
					t.Errorf("listed %d times, %d of these whole; want %d and %d", h.dumps, h.full, c.dumps, c.full)
				}
			})
		})
	}
}
