package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// flowsFrom returns the flows that a plan removes.
func flowsFrom(t *testing.T, have, want string) (flows []string) {
	t.Helper()
	parse := func(text string) kernel.State {
		o, err := kernel.ParseObserved(text)
		if err != nil {
			t.Fatal(err)
		}
		return o.State
	}
	p, _ := Diff(parse(want), kernel.Observed{Names: kernel.DefaultNames, State: parse(have)}, kernel.Memory{}, kernel.Now{})
	for _, o := range p.Ops {
		if f, ok := o.Object.(kernel.Flow); ok {
			flows = append(flows, strings.TrimPrefix(f.String(), "conntrack -D "))
		}
	}
	return flows
}

// Flows end with the last slot of their endpoint, under whatever policy, and when an address is served.
func TestFlowsOfMaps(t *testing.T) {
	const sets = "create KUBE-FRONTENDS map:ip,port family inet maxelem 65536\ncreate KUBE-SLOTS map:ip,port,slot family inet maxelem 65536\n"
	const front = "add KUBE-FRONTENDS 10.96.0.1,udp:53 : goto KUBE-LB-M-2\n"
	slot := func(n, e string) string { return "add KUBE-SLOTS 10.96.0.1,udp:53,slot:" + n + " : " + e + ":53\n" }
	const gone = "-p udp --orig-dst 10.96.0.1 --orig-port-dst 53 --reply-src 10.2.0.2 --reply-port-src 53"
	both := sets + front + slot("0", "10.2.0.1") + slot("1", "10.2.0.2")
	for _, c := range []struct {
		name, have, want string
		flows            []string
	}{
		{"the last slot", both, sets + front + slot("0", "10.2.0.1"), []string{gone}},
		{"a slot moves", both, sets + front + slot("0", "10.2.0.2") + slot("1", "10.2.0.1"), nil},
		{"it has one under policy Local", both, sets + front + slot("0", "10.2.0.1") + slot("32768", "10.2.0.2"), nil},
		{"another protocol", strings.ReplaceAll(both, "udp", "tcp"), strings.ReplaceAll(sets+front+slot("0", "10.2.0.1"), "udp", "tcp"), nil},
		{"no maps", sets + front + slot("0", "10.2.0.2"), "", []string{gone}},
		{"from rules", "#: iptables\n*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n" +
			"-A KUBE-SERVICES -d 10.96.0.1/32 -p udp -m udp --dport 53 -j KUBE-SVC-AAAAAAAAAAAAAAAA\n" +
			"-A KUBE-SVC-AAAAAAAAAAAAAAAA -p udp -j DNAT --to-destination 10.2.0.1:53\n" +
			"-A KUBE-SVC-AAAAAAAAAAAAAAAA -p udp -j DNAT --to-destination 10.2.0.2:53\nCOMMIT\n",
			sets + front + slot("0", "10.2.0.1"), []string{gone}},
		{"served from now on", sets, both, []string{
			"-p udp --orig-dst 10.96.0.1 --orig-port-dst 53 --reply-src 10.96.0.1 --reply-port-src 53"}},
	} {
		if got := flowsFrom(t, c.have, c.want); !slices.Equal(got, c.flows) {
			t.Errorf("%s: %q, want %q", c.name, got, c.flows)
		}
	}
}

// Planning is not quadratic in the slots of an address: 16 times as many would cost 256 times as much.
func TestManySlots(t *testing.T) {
	const drains = "#: drain-timeout 30s\n#: drain-rules\n"
	state := func(n int, proto kernel.Proto, kept func(i int) bool) kernel.State {
		o, err := kernel.ParseObserved(drains + "create KUBE-SLOTS map:ip,port,slot family inet maxelem 65536\n")
		if err != nil {
			t.Fatal(err)
		}
		var all []kernel.Entry
		for i := range n {
			if kept(i / 8) {
				a := netip.AddrFrom4([4]byte{10, 2, byte(i / 8 >> 8), byte(i / 8)})
				all = append(all, kernel.Entry{Set: "KUBE-SLOTS", Addr: netip.MustParseAddr("10.96.0.1"), Proto: proto, Port: 80,
					Slot: uint16(len(all)), ToPort: 80, Second: netip.PrefixFrom(a, 32)})
			}
		}
		o.Entries = kernel.EntriesOf(all)
		return o.State
	}
	half := func(i int) bool { return i%2 == 0 }
	all := func(int) bool { return true }
	for _, proto := range []kernel.Proto{kernel.TCP, kernel.UDP} {
		took := func(n int) time.Duration {
			want, have := state(n, proto, half), kernel.Observed{Names: kernel.DefaultNames, State: state(n, proto, all)}
			least := time.Hour
			for range 5 {
				start := time.Now()
				p, _ := Diff(want, have, kernel.Memory{}, kernel.Now{Time: start})
				least = min(least, time.Since(start))
				flows := 0
				for _, o := range p.Ops {
					if o.Object.Kind() == kernel.KindFlow {
						flows++
					}
				}
				if len(p.Drains)+flows != n/8/2 {
					t.Fatalf("%d drains, %d flows", len(p.Drains), flows)
				}
			}
			return least
		}
		few, many := took(1000), took(16000)
		t.Logf("%s: %v, %v", proto, few, many)
		if many > 100*few {
			t.Errorf("%s: %v with 1,000 slots, %v with 16,000", proto, few, many)
		}
	}
}
