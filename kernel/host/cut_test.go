package host_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/nftables"
	"github.com/svcproxy/svcproxy/sources"
)

// byMaps is the state of mode nftables on a kernel without dummy devices, and without what it sets in the kernel.
func byMaps(t sources.Table, n kernel.Node) kernel.State {
	f := frontend.List(t, n, frontend.Config{IPv6: host.HasIPv6(), Scheduler: "rr"})
	s := nftables.State(f, mode.Config{Names: kernel.DefaultNames, MasqueradeBit: 14, VIPPing: true,
		VIPBinding: mode.BindRoute, NoDevice: true})
	s.Sysctls = nil
	return s
}

// TestCutInModeNFTables ends plans of mode nftables after the k-th send, for every k: a load, a change of endpoints that
// also adds and removes services, and a cleanup. Then every frontend is as before or as after, and so is every endpoint.
// A VIP that is bound has its guard, and the next process does the rest.
func TestCutInModeNFTables(t *testing.T) {
	one, two := table(60, 3), table(60, 5)
	one.Services = sources.ServicesOf(one.Services.Slice()[:40]...)
	two.Services = sources.ServicesOf(two.Services.Slice()[20:]...)
	for name, step := range map[string][2]sources.Table{
		"load": {{}, one}, "change": {one, two}, "cleanup": {two, {}},
	} {
		texts := map[string]bool{}
		sends := 1 // the first plan, which is not cut, counts them
		for cut := 0; cut <= sends; cut++ {
			t.Run(fmt.Sprintf("%s %d", name, cut), func(t *testing.T) {
				var w wire
				k := openMaps(t, host.Options{Dialer: w.dialer()})
				node := read(t, k).Node
				before, after := byMaps(step[0], node), byMaps(step[1], node)
				sync(t, k, before)
				p := plan.Once(after, read(t, k))
				if w.reset(cut); cut == 0 {
					w.reset(-1)
				}
				err := k.Apply(t.Context(), p)
				if cut == 0 {
					if err != nil {
						t.Fatal(err)
					}
					sends = 0
					for _, n := range w.sends {
						sends += n
					}
					t.Logf("%d sends of %d ops", sends, len(p.Ops))
				} else if cut < sends && err == nil {
					t.Error("nothing failed although the transport died")
				}
				again := openAgain(t) // knows only what it reads
				have := read(t, again)
				texts[kernel.State{Sets: have.Sets, Entries: have.Entries, Chains: have.Chains}.String()] = true
				oneOrTheOther(t, have, before, after)
				guarded(t, have)
				sync(t, again, after)
				if p := plan.Once(after, read(t, again)); !p.Empty() {
					t.Errorf("it does not converge:\n%s", p)
				}
			})
		}
		if len(texts) > 4 { // as before, with new chains that nothing leads to, built up, torn down
			t.Errorf("%s: the tables had %d states", name, len(texts))
		}
	}
}

// openMaps is open for a kernel without IPVS.
func openMaps(t *testing.T, o host.Options) *host.Kernel {
	t.Helper()
	kerneltest.Need(t, kerneltest.Root)
	kerneltest.NewNamespace(t)
	return openHere(t, o)
}

func openAgain(t *testing.T) *host.Kernel {
	t.Helper()
	return openHere(t, host.Options{})
}

func openHere(t *testing.T, o host.Options) *host.Kernel {
	t.Helper()
	o.Names, o.StateDir, o.Native, o.Needs = kernel.DefaultNames, t.TempDir(), true, new(nftables.Mode).Needs()
	k, err := host.Open(t.Context(), o)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// oneOrTheOther wants each entry of the maps to be one of two states, and none that both have to be missing.
func oneOrTheOther(t *testing.T, have kernel.Observed, before, after kernel.State) {
	t.Helper()
	all := func(s kernel.State) map[string]bool {
		texts := map[string]bool{}
		for e := range s.Entries.All() {
			texts[e.Set+" "+e.String()] = true
		}
		return texts
	}
	old, fresh := all(before), all(after)
	now := all(have.State)
	for text := range now {
		if !old[text] && !fresh[text] {
			t.Errorf("of neither state: %s", text)
		}
	}
	for text := range old {
		if fresh[text] && !now[text] {
			t.Errorf("missing: %s", text)
		}
	}
}

// guarded wants a VIP that is bound to refuse port 22, and its own port to lead to no port of the host.
func guarded(t *testing.T, have kernel.Observed) {
	t.Helper()
	bound := map[netip.Addr]bool{}
	for _, a := range have.Addrs {
		bound[a.Addr] = true
	}
	for _, r := range have.Routes {
		bound[r.Addr] = true
	}
	for vip := range bound {
		from := netip.MustParseAddr("192.0.2.9")
		if vip.Is6() {
			from = netip.MustParseAddr("2001:db8::9")
		}
		for port, want := range map[uint16]bool{22: true, 80: false} {
			p := packet.Packet{Proto: kernel.TCP, Src: netip.AddrPortFrom(from, 40000), Dst: netip.AddrPortFrom(vip, port), In: "eth0"}
			v, err := packet.Trace(have.State, have.Node, p)
			if err != nil || v.Fate == packet.Host || want && v.Fate != packet.Rejected {
				t.Errorf("%s: %s, %v", p, v, err)
			}
		}
	}
}
