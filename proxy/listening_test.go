package proxy_test

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// programs are those of a host that listen.
type programs struct {
	mu    sync.Mutex
	list  []kernel.Listener
	reads int
}

func (p *programs) listeners(wanted func(uint16, kernel.Proto) bool) (list []kernel.Listener, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	for _, l := range p.list {
		if wanted(l.Port, l.Proto) {
			list = append(list, l)
		}
	}
	return list, nil
}

func (p *programs) set(list ...kernel.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list, p.reads = list, 0
}

func (p *programs) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads
}

// A port where a program listens is withheld until the program stops, which is noticed within two seconds. A port that
// is served stays, with a condition, also over a restart: the kernel has it.
func TestPortsOfPrograms(t *testing.T) {
	own := netip.MustParseAddr("192.0.2.1")
	sshd := kernel.Listener{Addr: netip.IPv4Unspecified(), Port: 80, Proto: kernel.TCP, Program: "sshd (pid 812)"}
	resolver := kernel.Listener{Addr: netip.IPv4Unspecified(), Port: 53, Proto: kernel.UDP}
	synctest.Test(t, func(t *testing.T) {
		host := &programs{list: []kernel.Listener{resolver, sshd}}
		var board condition.Board
		with := func(r *run) {
			r.options.Rules = func(m sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
				if len(m.Services.At(0).Withheld) > 0 {
					m.Table = sources.Table{}
				}
				return rules(m, n, occupied)
			}
			r.options.Listeners, r.options.Conditions = host.listeners, &board
			r.kernel.SetNode(kernel.Node{Addrs: []kernel.NodeAddr{{Prefix: netip.PrefixFrom(own, 24), Link: "eth0"}}})
		}
		r := start(t, with)
		wanted := table(1)
		s := *wanted.Services.At(0)
		s.ClusterIPs = []netip.Addr{own}
		wanted.Services = sources.ServicesOf(s)
		r.emit(wanted)
		if got := r.kernel.State().Virtuals; len(got) != 0 || len(r.last().Problems) != 1 {
			t.Errorf("while sshd listens: %v, problems %v", got, r.last().Problems)
		}
		host.set(resolver)
		pass(2100 * time.Millisecond)
		if got := r.kernel.State().Virtuals; len(got) != 1 || r.last().Causes != proxy.CausesOf(proxy.CauseNode) {
			t.Errorf("after sshd stopped: %v, cause %s", got, r.last().Causes.First())
		}
		host.set(resolver)
		pass(20 * time.Second)
		if n := host.count(); n > 1 {
			t.Errorf("%d looks in 20 s although nothing waits", n)
		}
		host.set(resolver, sshd)
		pass(31 * time.Second)
		if got := r.kernel.State().Virtuals; len(got) != 1 || condition.Count(board.List(), condition.Displaced) != 1 {
			t.Errorf("sshd is back: %v, conditions %v", got, board.List())
		}
		r.end()

		again := start(t, func(n *run) {
			n.kernel, n.options.Kernel = r.kernel, r.kernel
			with(n)
		})
		defer again.end()
		again.emit(wanted)
		pass(time.Minute)
		if got := again.kernel.State().Virtuals; len(got) != 1 || condition.Count(board.List(), condition.Displaced) != 1 {
			t.Errorf("after a restart: %v, conditions %v", got, board.List())
		}
		host.set()
		pass(31 * time.Second)
		if list := board.List(); len(list) != 0 || !slices.Equal(again.last().Problems, nil) {
			t.Errorf("without programs: %v, %v", list, again.last().Problems)
		}
	})
}
