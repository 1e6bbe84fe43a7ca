package proxy_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// link is a Prober with the other hosts on a link.
type link struct {
	mu        sync.Mutex
	hosts     map[netip.Addr]string
	probes    []int // how many claims each had
	announced []kernel.Claim
	err       error
}

func (l *link) Probe(_ context.Context, claims []kernel.Claim) (taken []kernel.Taken, err error) {
	time.Sleep(300 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probes = append(l.probes, len(claims))
	for _, c := range claims {
		if mac := l.hosts[c.Addr]; mac != "" {
			taken = append(taken, kernel.Taken{Claim: c, MAC: mac})
		}
	}
	return taken, l.err
}

func (l *link) Announce(_ context.Context, claims []kernel.Claim) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.announced = append(l.announced, claims...)
	return nil
}

func (l *link) set(hosts map[netip.Addr]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts = hosts
}

func (l *link) asked() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.probes)
}

// claiming returns rules that also bind VIPs 192.0.2.x, which are claimed on eth0, and
// one VIP that is not claimed.
func claiming(vips int) proxy.Rules {
	return func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
		f, s := rules(t, n, occupied)
		s.Policy.Probe = true
		s.Links = []kernel.Link{{Name: names.Device, Type: "dummy"}}
		s.Addrs = []kernel.Addr{{Addr: netip.MustParseAddr("10.96.0.1"), Link: names.Device}}
		for i := range vips {
			s.Addrs = append(s.Addrs, kernel.Addr{Addr: vip(i), Link: names.Device})
			s.Policy.Claims = append(s.Policy.Claims, kernel.Claim{Addr: vip(i), Link: "eth0"})
		}
		s.Sort()
		return f, s
	}
}

func vip(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(2 + i>>8), byte(i)}) }

func (r *run) bound() (list []netip.Addr) {
	for _, a := range r.kernel.State().Addrs {
		list = append(list, a.Addr)
	}
	return list
}

// A claimed VIP is bound and announced once no host has answered for it. Nothing else
// waits for that. A VIP that another host has is bound when that host has gone.
func TestVIPsWaitForOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{hosts: map[netip.Addr]string{vip(1): "02:00:00:00:00:09"}}
		r := start(t, func(r *run) { r.options.Rules, r.options.Prober = claiming(2), l })
		defer r.end()
		r.emit(table(1))
		free := netip.MustParseAddr("10.96.0.1")
		if got := r.bound(); !slices.Equal(got, []netip.Addr{free}) || len(r.weights()) != 1 {
			t.Errorf("while other hosts are asked: bound %v, %d real servers", got, len(r.weights()))
		}
		pass(400 * time.Millisecond)
		if got := r.bound(); !slices.Equal(got, []netip.Addr{free, vip(0)}) {
			t.Errorf("after the answers: bound %v", got)
		}
		if last := r.last(); !last.Causes.Has(proxy.CauseProbe) || len(last.Plan.Taken) != 1 || last.Plan.Taken[0].MAC != "02:00:00:00:00:09" {
			t.Errorf("the sync of the answers: cause %s, taken %v", last.Causes.First(), last.Plan.Taken)
		}
		if l.announced = slices.Clone(l.announced); len(l.announced) != 1 || l.announced[0].Addr != vip(0) {
			t.Errorf("announced %v", l.announced)
		}
		pass(29 * time.Second)
		if got := l.asked(); len(got) != 1 {
			t.Errorf("asked %v within a period", got)
		}
		l.set(nil)
		pass(32 * time.Second)
		if got := r.bound(); len(got) != 3 {
			t.Errorf("after the other host is gone: bound %v, asked %v", got, l.asked())
		}
		pass(time.Minute)
		if got := l.asked(); len(got) != 2 {
			t.Errorf("asked %v once all are bound", got)
		}
	})
}

// A VIP that is bound already is adopted without a probe and without a write.
func TestBoundVIPsAreNotProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{hosts: map[netip.Addr]string{vip(0): "02:00:00:00:00:09"}}
		r := start(t, func(r *run) { r.options.Rules, r.options.Prober = claiming(1), nil })
		r.emit(table(1))
		r.end()
		_, written := r.kernel.Counts()
		again := start(t, func(s *run) {
			s.kernel, s.options.Kernel, s.options.Rules, s.options.Prober = r.kernel, r.kernel, claiming(1), l
		})
		defer again.end()
		again.emit(table(1))
		pass(time.Minute)
		if _, now := r.kernel.Counts(); now != written || len(l.asked()) != 0 || len(l.announced) != 0 || len(again.bound()) != 2 {
			t.Errorf("%d written, asked %v, announced %v, bound %v", now-written, l.asked(), l.announced, again.bound())
		}
	})
}

// A VIP that another program unbound is bound again at once, without a probe: it is
// drift.
func TestUnboundVIPIsBoundWithoutProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{}
		r := start(t, func(r *run) { r.options.Rules, r.options.Prober = claiming(1), l })
		defer r.end()
		r.emit(table(1))
		pass(time.Second)
		a := kernel.Addr{Addr: vip(0), Link: names.Device}
		if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Remove, Object: a, Was: a}}}); err != nil {
			t.Fatal(err)
		}
		r.proxy.Check(proxy.CauseAsked)
		pass(time.Millisecond)
		if got := r.bound(); len(got) != 2 || len(l.asked()) != 1 || !r.last().Drift() {
			t.Errorf("bound %v, asked %v, drift %v", got, l.asked(), r.last().Drift())
		}
	})
}

// Many VIPs are probed in batches, and each batch is bound when its answers arrive.
func TestManyVIPsAreProbedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{}
		r := start(t, func(r *run) { r.options.Rules, r.options.Prober = claiming(250), l })
		defer r.end()
		r.emit(table(1))
		pass(400 * time.Millisecond)
		if got := len(r.bound()); got != 101 {
			t.Errorf("%d bound after the first answers", got)
		}
		pass(time.Second)
		if got := len(r.bound()); got != 251 || !slices.Equal(l.asked(), []int{100, 100, 50}) {
			t.Errorf("%d bound, asked %v", got, l.asked())
		}
	})
}

// Confirm waits for the answers. If the probe fails, VIPs are bound anyway.
func TestConfirmWaitsForProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{err: errors.New("no packet socket")}
		r := start(t, func(r *run) { r.options.Rules, r.options.Prober = claiming(1), l })
		defer r.end()
		r.source <- emission{table: table(1)}
		s, err := r.proxy.Confirm(t.Context())
		if err != nil || s.Report.Err != nil || len(r.bound()) != 2 || s.Report.Steps != 0 {
			t.Errorf("%v, %v: bound %v after %d steps", err, s.Report.Err, r.bound(), s.Report.Steps)
		}
	})
}

// A VIP that has just gone from another link of this node may be moving to another host
// by VRRP. That host gets time to answer before the probe.
func TestVIPThatMovesAwayIsProbedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{}
		own := kernel.Node{Addrs: []kernel.NodeAddr{{Prefix: netip.PrefixFrom(vip(0), 24), Link: "eth0"}}}
		r := start(t, func(r *run) {
			bind := claiming(1)
			r.kernel.SetNode(own)
			r.options.Prober = l
			r.options.Rules = func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
				if n.Has(vip(0)) {
					return rules(t, n, occupied)
				}
				return bind(t, n, occupied)
			}
		})
		defer r.end()
		r.emit(table(1))
		r.kernel.SetNode(kernel.Node{})
		r.proxy.Check(proxy.CauseNode)
		pass(4 * time.Second)
		if got := r.bound(); len(got) != 1 || len(l.asked()) != 0 {
			t.Errorf("bound %v, asked %v", got, l.asked())
		}
		l.set(map[netip.Addr]string{vip(0): "02:00:00:00:00:09"})
		pass(2 * time.Second)
		if got := r.bound(); len(got) != 1 || len(l.asked()) != 1 || len(r.last().Plan.Taken) != 1 {
			t.Errorf("bound %v, asked %v, taken %v", got, l.asked(), r.last().Plan.Taken)
		}
	})
}
