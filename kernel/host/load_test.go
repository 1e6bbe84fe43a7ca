package host_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
)

// table has services at 10.96.0.0/16, every tenth with an IPv6 address too. Their
// endpoints are on another node.
func table(services, endpoints int) sources.Table {
	var t sources.Table
	for i := range services {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP,
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
		}
		for j := range endpoints {
			s.Endpoints = append(s.Endpoints, endpoint(netip.AddrFrom4([4]byte{10, byte(100 + j), byte(i >> 8), byte(i)})))
		}
		if i%10 == 0 {
			v6 := netip.MustParseAddr("fd00:96::").As16()
			v6[14], v6[15] = byte(i>>8), byte(i)
			s.ClusterIPs = append(s.ClusterIPs, netip.AddrFrom16(v6))
			v6[3] = 2
			s.Endpoints = append(s.Endpoints, endpoint(netip.AddrFrom16(v6)))
		}
		t.Services = t.Services.Append(s)
	}
	return t
}

// endpoint has no node name, so it gets an entry for hairpins.
func endpoint(a netip.Addr) sources.Endpoint {
	return sources.Endpoint{
		Addr: a, Weight: 1, Ready: true, Serving: true,
		Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
	}
}

func state(t sources.Table, n kernel.Node) kernel.State {
	f := frontend.List(t, n, frontend.Config{IPv6: true, Scheduler: "rr"})
	return ipvs.State(f, mode.Config{Names: kernel.DefaultNames, MasqueradeBit: 14, VIPPing: true})
}

// wire counts what is sent and received on the netlink sockets, by family, and can cut
// them.
type wire struct {
	sends, receives, messages, dumps map[int]int

	budget int // sends until it cuts; negative means no limit
}

func (w *wire) dialer() *nl.Dialer {
	w.reset(-1)
	return &nl.Dialer{Wrap: func(family int, t nl.Transport) nl.Transport { return &counted{t, w, family} }}
}

func (w *wire) reset(budget int) {
	w.sends, w.receives, w.messages, w.dumps = map[int]int{}, map[int]int{}, map[int]int{}, map[int]int{}
	w.budget = budget
}

func (w *wire) calls() (n int) {
	for f := range w.sends {
		n += w.sends[f] + w.receives[f]
	}
	return n
}

type counted struct {
	nl.Transport
	wire   *wire
	family int
}

var errCut = errors.New("the transport died")

func (c *counted) Send(b []byte) error {
	if c.wire.budget == 0 {
		return errCut
	}
	c.wire.budget--
	c.wire.sends[c.family]++
	for m := b; len(m) >= unix.SizeofNlMsghdr; {
		n := binary.NativeEndian.Uint32(m)
		c.wire.messages[c.family]++
		if binary.NativeEndian.Uint16(m[6:])&unix.NLM_F_DUMP == unix.NLM_F_DUMP {
			c.wire.dumps[c.family]++
		}
		m = m[min(len(m), int(n+3)&^3):]
	}
	return c.Transport.Send(b)
}

func (c *counted) Receive(b []byte) (int, error) {
	c.wire.receives[c.family]++
	return c.Transport.Receive(b)
}

func read(t *testing.T, k *host.Kernel) kernel.Observed {
	t.Helper()
	o, err := k.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func apply(t *testing.T, k *host.Kernel, want kernel.State, have kernel.Observed) kernel.Observed {
	t.Helper()
	p := plan.Once(want, have)
	if err := k.Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	after, ok := plan.Advance(have, p.Ops)
	if !ok {
		t.Fatal("the reading cannot be advanced")
	}
	return after
}

// TestCosts counts what a load, an idle check and a changed endpoint cost. A changed
// endpoint must cost the same at any size of the table.
func TestCosts(t *testing.T) {
	sizes := []int{10, 5000}
	if testing.Short() {
		sizes[1] = 500
	}
	changes := make([]string, 0, len(sizes))
	for _, services := range sizes {
		t.Run(fmt.Sprint(services), func(t *testing.T) {
			var w wire
			k := open(t, host.Options{Dialer: w.dialer(), Sysctls: ipvs.SysctlNames})
			have := read(t, k)
			tab := table(services, 5)

			w.reset(-1)
			have = apply(t, k, state(tab, have.Node), have)
			for f := range w.sends {
				n := w.messages[f]
				if calls, most := w.sends[f]+w.receives[f], 2*((n+249)/250)+8; calls > most {
					t.Errorf("load: %d system calls on family %d for %d messages, want at most %d", calls, f, n, most)
				}
			}
			t.Logf("load: sends %v, receives %v, messages %v by family", w.sends, w.receives, w.messages)
			if same, err := k.Verify(t.Context(), &have, plan.Everything); !same || err != nil {
				t.Errorf("what was loaded is not what is there: %v", err)
			}

			costs := ""
			for _, change := range []struct {
				name string
				do   func(*sources.Service)
			}{
				{"added", func(s *sources.Service) {
					s.Endpoints = append(s.Endpoints[:len(s.Endpoints):len(s.Endpoints)], endpoint(netip.MustParseAddr("10.200.0.1")))
				}},
				{"weight changed", func(s *sources.Service) { s.Endpoints[len(s.Endpoints)-1].Weight = 5 }},
				{"set to drain", func(s *sources.Service) { s.Endpoints[len(s.Endpoints)-1].Weight = 0 }},
			} {
				change.do(tab.Services.At(services/2 + 1))
				w.reset(-1)
				before := k.Stats()
				have = apply(t, k, state(tab, have.Node), have)
				if w.calls() == 0 || w.calls() > 4 || len(w.dumps) > 0 {
					t.Errorf("endpoint %s: %d system calls, dumps %v; want at most 4 and none", change.name, w.calls(), w.dumps)
				}
				if after := k.Stats(); after.Readers+after.Writers != before.Readers+before.Writers {
					t.Errorf("endpoint %s: iptables was run", change.name)
				}
				costs += fmt.Sprintf("%s: sends %v receives %v messages %v; ", change.name, w.sends, w.receives, w.messages)
			}
			t.Log(costs)
			changes = append(changes, costs)

			read(t, k) // iptables has changed since the first reading, so the tools run once more
			before := k.Stats()
			idle := read(t, k)
			if p := plan.Once(state(tab, idle.Node), idle); !p.Empty() {
				t.Errorf("an idle check found something to do:\n%s", p)
			}
			if after := k.Stats(); after.Readers != before.Readers || after.Writers != before.Writers {
				t.Errorf("an idle check ran %d readers and %d writers", after.Readers-before.Readers, after.Writers-before.Writers)
			}
			checkShards(t, k, &w, tab, idle)
		})
	}
	if len(changes) == 2 && changes[0] != changes[1] {
		t.Errorf("a change costs more in a larger table:\n%s\n%s", changes[0], changes[1])
	}
}

// checkShards verifies each shard after each kind of change of ours: none of these may
// look like drift. No verification writes or runs a tool, and it allocates only for each
// dump, not for each object.
func checkShards(t *testing.T, k *host.Kernel, w *wire, tab sources.Table, have kernel.Observed) {
	t.Helper()
	added := endpoint(netip.MustParseAddr("10.200.0.2"))
	for _, s := range []*sources.Service{tab.Services.At(tab.Services.Len()/2 + 1), tab.Services.At(tab.Services.Len() / 2)} {
		s.Endpoints = append(s.Endpoints[:len(s.Endpoints):len(s.Endpoints)], added)
		have = apply(t, k, state(tab, have.Node), have)
		s.Endpoints = s.Endpoints[1:]
		s.Endpoints[0].Weight = 7
		have = apply(t, k, state(tab, have.Node), have)
	}
	tab.Services = sources.ServicesOf(slices.Delete(tab.Services.Slice(), 1, 2)...)
	have = apply(t, k, state(tab, have.Node), have)

	w.reset(-1)
	before := k.Stats()
	shards := plan.Shards(&have.State, 30)
	for i, shard := range shards {
		allocs := testing.AllocsPerRun(1, func() {
			if same, err := k.Verify(t.Context(), &have, shard); !same || err != nil {
				t.Errorf("shard %d of %d is not as we left it: %v", i, len(shards), err)
			}
		})
		dumps := 0
		for _, v := range have.Virtuals {
			if v.Key.Family() == kernel.IPv6 && shard.HasReals(v.Key) {
				dumps++
			}
		}
		if most := 1500 + 10*float64(dumps); allocs > most {
			t.Errorf("shard %d: %v allocations, want at most %v", i, allocs, most)
		}
	}
	for f, n := range w.messages {
		t.Logf("%d shards, twice each: %d messages on family %d, %d dumps", len(shards), n, f, w.dumps[f])
	}
	if after := k.Stats(); after.Readers != before.Readers || after.Writers != before.Writers || after.Netlink.IPVS.Messages != before.Netlink.IPVS.Messages ||
		after.Netlink.Sets.Messages != before.Netlink.Sets.Messages || after.Netlink.Links.Messages != before.Netlink.Links.Messages {
		t.Errorf("checks ran tools or wrote: %+v, before %+v", after, before)
	}
}

// TestCutAtEverySend loads 500 services over a transport that breaks after the k-th
// send, for every k, and then continues over a working one.
func TestCutAtEverySend(t *testing.T) {
	services := 500
	if testing.Short() {
		services = 50
	}
	tab := table(services, 3)
	var whole string
	sends := 1 // the first load, which is not cut, counts them
	for cut := 0; cut <= sends; cut++ {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			var w wire
			k := open(t, host.Options{Dialer: w.dialer(), Sysctls: ipvs.SysctlNames})
			foreign := plantForeigners(t)
			have := read(t, k)
			want := state(tab, have.Node)
			p := plan.Once(want, have)

			w.reset(cut)
			if cut == 0 {
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
				t.Logf("%d sends", sends)
			} else if cut < sends && err == nil {
				t.Error("nothing failed although the transport died")
			}
			w.reset(-1)

			// A new process knows only what it reads.
			again, err := host.Open(t.Context(), host.Options{Names: kernel.DefaultNames, StateDir: t.TempDir(), Sysctls: ipvs.SysctlNames})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			have = read(t, again)
			safe(t, have)
			apply(t, again, want, have)
			got := read(t, again)
			if p := plan.Once(want, got); !p.Empty() || len(p.Conflicts) > 0 {
				t.Errorf("it does not converge:\n%s", p)
			}
			if whole == "" {
				whole = got.State.String()
			} else if got.State.String() != whole {
				t.Error("the state after a cut load is not that of a whole one")
			}
			if now := foreignText(t); now != foreign {
				t.Errorf("foreign objects were\n%s\nand are\n%s", foreign, now)
			}
		})
	}
}

// safe checks what must hold at any moment of a load: every virtual server of ours is in
// the ownership set, and every bound VIP has its virtual server.
func safe(t *testing.T, o kernel.Observed) {
	t.Helper()
	owned, served := map[kernel.VirtualKey]bool{}, map[netip.Addr]bool{}
	for _, k := range plan.Owned(&o, nil) {
		owned[k] = true
	}
	for _, v := range o.Virtuals {
		served[v.Key.Addr] = true
		if !owned[v.Key] && v.Key != foreignKey {
			t.Errorf("%s is not in the ownership set", v.Key)
		}
	}
	for _, a := range o.Addrs {
		if !served[a.Addr] {
			t.Errorf("%s is bound and has no virtual server", a.Addr)
		}
	}
}

var foreignKey = kernel.VirtualAt(netip.MustParseAddrPort("10.9.9.9:99"), kernel.TCP)

// plantForeigners creates foreign objects.
func plantForeigners(t *testing.T) string {
	t.Helper()
	for _, args := range [][]string{
		{"ipvsadm", "-A", "-t", "10.9.9.9:99", "-s", "wlc"},
		{"ipvsadm", "-a", "-t", "10.9.9.9:99", "-r", "10.9.9.1:99", "-g", "-w", "7"},
		{"ipset", "create", "blocklist", "hash:ip"},
		{"ipset", "add", "blocklist", "192.0.2.66"},
		{"iptables", "-N", "MINE"},
		{"iptables", "-A", "MINE", "-m", "set", "--match-set", "blocklist", "src", "-j", "DROP"},
		{"iptables", "-I", "INPUT", "-j", "MINE"},
		{"ip", "link", "add", "mine0", "type", "dummy"},
		{"ip", "addr", "add", "192.0.2.1/24", "dev", "mine0"},
	} {
		kerneltest.Run(t, args[0], args[1:]...)
	}
	return foreignText(t)
}

// foreignText is what the tools print about them.
func foreignText(t *testing.T) string {
	t.Helper()
	return kerneltest.Run(t, "ipvsadm", "-Ln", "-t", "10.9.9.9:99") +
		kerneltest.Run(t, "ipset", "save", "blocklist") +
		kerneltest.Run(t, "iptables", "-S", "MINE") +
		kerneltest.Run(t, "ip", "-o", "addr", "show", "dev", "mine0")
}
