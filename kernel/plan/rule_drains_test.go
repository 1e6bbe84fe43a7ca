package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// ruled is a state whose rules lead 10.96.0.1:80 to some endpoints.
func ruled(t *testing.T, policy string, endpoints ...string) kernel.State {
	t.Helper()
	var b strings.Builder
	b.WriteString(policy + `#: iptables
*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
`)
	for _, e := range endpoints {
		fmt.Fprintf(&b, "-A KUBE-SVC-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination %s:80\n", e)
	}
	b.WriteString("COMMIT\n")
	o, err := kernel.ParseObserved(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return o.State
}

// mapped is ruled in mode nftables.
func mapped(t *testing.T, policy string, endpoints ...string) kernel.State {
	t.Helper()
	var b strings.Builder
	b.WriteString(policy + "create KUBE-SLOTS map:ip,port,slot family inet maxelem 65536\n")
	for i, e := range endpoints {
		fmt.Fprintf(&b, "add KUBE-SLOTS 10.96.0.1,tcp:80,slot:%d : %s:80\n", i, e)
	}
	o, err := kernel.ParseObserved(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return o.State
}

// An endpoint that rules, or maps, leave out drains until its deadline. What Diff returned is what the next Diff knows.
func TestRulesDrain(t *testing.T) {
	t.Run("rules", func(t *testing.T) { testDrains(t, ruled) })
	t.Run("maps", func(t *testing.T) { testDrains(t, mapped) })
}

func testDrains(t *testing.T, ruled func(t *testing.T, policy string, endpoints ...string) kernel.State) {
	const limited = "#: drain-timeout 30s\n#: drain-rules\n"
	key := kernel.RealKey{
		Virtual: kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP), Addr: netip.MustParseAddrPort("10.2.0.2:80"),
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	both, one := ruled(t, limited, "10.2.0.1", "10.2.0.2"), ruled(t, limited, "10.2.0.1")
	have := kernel.Observed{Names: kernel.DefaultNames, State: both, Fresh: true}
	p, memory := Diff(one, have, kernel.Memory{}, kernel.Now{Time: begin})
	draining := []kernel.Drain{{Real: key, Since: begin}}
	if !slices.Equal(p.Drains, draining) || !p.Wake.Equal(begin.Add(30*time.Second)) || p.Draining != 0 {
		t.Fatalf("it begins: %v, wake %v, %d", p.Drains, p.Wake, p.Draining)
	}
	have, _ = Advance(have, p.Ops)
	ends := []string{"conntrack -D -p tcp --orig-dst 10.96.0.1 --orig-port-dst 80 --reply-src 10.2.0.2 --reply-port-src 80"}
	for _, c := range []struct {
		name  string
		want  kernel.State
		after time.Duration
		goes  bool // on
		ops   []string
	}{
		{"before its deadline", one, 29 * time.Second, true, nil},
		{"at its deadline", one, 30 * time.Second, false, ends},
		{"unlimited by then", ruled(t, "", "10.2.0.1"), 30 * time.Second, false, nil},
		{"wanted with weight 0", ruled(t, limited+"#: quiesced -t 10.96.0.1:80 -r 10.2.0.2:80\n", "10.2.0.1"), 30 * time.Second, false, nil},
		{"of a service that is gone", kernel.State{Policy: one.Policy}, 30 * time.Second, false, ends},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, then := Diff(c.want, have, memory, kernel.Now{Time: begin.Add(c.after)})
			var flows []string
			for _, o := range p.Ops {
				if f, ok := o.Object.(kernel.Flow); ok {
					flows = append(flows, f.String())
				}
			}
			if slices.Contains(p.Drains, draining[0]) != c.goes || !slices.Equal(flows, c.ops) {
				t.Errorf("drains %v, removes %q", p.Drains, flows)
			}
			refused := &kernel.ApplyError{}
			for i, o := range p.Ops {
				refused.Failed = append(refused.Failed, &kernel.OpError{Index: i, Op: o, Err: errors.New("refused")})
			}
			if failed := After(memory, then, p, refused).Drains; c.ops != nil != slices.Contains(failed, draining[0]) && !c.goes {
				t.Errorf("known after a failure: %v", failed)
			}
		})
	}
}

// An endpoint that had weight 0 when it left has no rule that could tell of it. It drains from then on.
func TestQuiescedDrainWhenTheyLeave(t *testing.T) {
	const limited, quiesced = "#: drain-timeout 30s\n#: drain-rules\n", "#: quiesced -t 10.96.0.1:80 -r 10.2.0.2:80\n"
	key := kernel.RealKey{
		Virtual: kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP), Addr: netip.MustParseAddrPort("10.2.0.2:80"),
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := ruled(t, limited, "10.2.0.1")
	have := kernel.Observed{Names: kernel.DefaultNames, State: one}
	begins := []kernel.Drain{{Real: key, Since: now}}
	for _, c := range []struct {
		name  string
		want  kernel.State
		known []kernel.Drain
		drain []kernel.Drain
	}{
		{"it is gone", one, nil, begins},
		{"its drain runs", one, []kernel.Drain{{Real: key, Since: now.Add(-time.Second)}}, []kernel.Drain{{Real: key, Since: now.Add(-time.Second)}}},
		{"it still has weight 0", ruled(t, limited+quiesced, "10.2.0.1"), nil, nil},
		{"it has a rule again", ruled(t, limited, "10.2.0.1", "10.2.0.2"), nil, nil},
		{"its service is gone", kernel.State{Policy: one.Policy}, nil, begins},
		{"it is cut", ruled(t, limited+"#: cut -t 10.96.0.1:80 -r 10.2.0.2:80\n", "10.2.0.1"), nil, nil},
		{"a source is pending", ruled(t, limited+"#: hold\n", "10.2.0.1"), nil, nil},
		{"no drain is limited", ruled(t, "", "10.2.0.1"), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			memory := kernel.Memory{Drains: c.known, Quiesced: []kernel.RealKey{key}}
			p, _ := Diff(c.want, have, memory, kernel.Now{Time: now})
			got := slices.DeleteFunc(slices.Clone(p.Drains), func(x kernel.Drain) bool { return x.Real != key })
			if !slices.Equal(got, c.drain) {
				t.Errorf("drains %v, want %v", p.Drains, c.drain)
			}
			if c.drain != nil && !p.Wake.Equal(c.drain[0].Since.Add(30*time.Second)) {
				t.Errorf("wake %v", p.Wake)
			}
		})
	}
}
