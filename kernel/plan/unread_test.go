package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// Without a reading, weights change and announcements end. Nothing is added, and nothing is removed for good.
func TestUnread(t *testing.T) {
	v := kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP)
	real := func(n byte, weight uint32) kernel.Real {
		return kernel.Real{Key: kernel.RealKey{Virtual: v, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 1, n}), 80)}, Weight: weight}
	}
	down, up, gone, lighter := real(1, 1), real(2, 0), real(3, 1), real(4, 5)
	since := time.Unix(1, 0)
	drain := func(r kernel.Real) kernel.Drain { return kernel.Drain{Real: r.Key, Since: since} }
	vip := kernel.Announcement{Addr: v.Addr}
	drained := func(metric uint32) kernel.Announcement { // whose metric becomes another one
		return kernel.Announcement{Addr: netip.MustParseAddr("10.96.0.3"), Metric: metric}
	}
	change := func(was, to kernel.Object) kernel.Op { return kernel.Op{Verb: kernel.Change, Object: to, Was: was} }
	p := kernel.Plan{Drains: []kernel.Drain{drain(down)}, Ops: []kernel.Op{
		{Verb: kernel.Add, Object: drained(2000)},
		{Verb: kernel.Remove, Object: vip, Was: vip},
		{Verb: kernel.Remove, Object: drained(100), Was: drained(100)},
		change(down, real(1, 0)),
		change(up, real(2, 3)),
		{Verb: kernel.Remove, Object: gone, Was: gone},
		change(lighter, real(4, 2)),
		{Verb: kernel.Add, Object: real(5, 1)},
		{Verb: kernel.Add, Object: kernel.Announcement{Addr: netip.MustParseAddr("10.96.0.2")}},
		{Verb: kernel.Remove, Object: real(6, 0), Was: real(6, 0)},
		{Verb: kernel.Add, Object: kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES"}},
	}}
	got := plan.Unread(p, []kernel.Drain{drain(up)})
	want := slices.Concat(p.Ops[:5], []kernel.Op{change(gone, real(3, 0)), p.Ops[6]})
	if !slices.Equal(got.Ops, want) {
		t.Errorf("ops\n%v, want\n%v", got.Ops, want)
	}
	if !slices.Equal(got.Drains, p.Drains) {
		t.Errorf("drains %v, want %v: one that is up again does not drain", got.Drains, p.Drains)
	}
}

func TestUnseenBackendIsNamed(t *testing.T) {
	o, err := kernel.ParseObserved(kernel.Observed{Names: kernel.DefaultNames, Unseen: "exit status 1: a  reason"}.String())
	if err != nil || o.Unseen != "exit status 1: a reason" {
		t.Fatalf("%q, %v", o.Unseen, err)
	}
	p := plan.Once(kernel.State{}, o)
	if got := fmt.Sprint(p.Warnings); !strings.Contains(got, "in the other back end of iptables: exit status 1") {
		t.Errorf("warnings %s", got)
	}
}

func TestHiddenTablesAreNamed(t *testing.T) {
	p := plan.Once(kernel.State{}, kernel.Observed{Names: kernel.DefaultNames, Hidden: []string{"ip6tables nat"}})
	if got := fmt.Sprint(p.Warnings); !strings.Contains(got, "ip6tables cannot show table nat") || !strings.Contains(got, "nft -a list table ip6 nat") {
		t.Errorf("warnings %s", got)
	}
}
