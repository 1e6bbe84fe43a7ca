package plan

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// In mode userspace the relay's virtual servers are owned without a set. One that IPVS still has moves to the relay if it
// is owned and wanted, goes if it is owned and not wanted, and is a conflict if it is another program's.
func TestVirtualServersMoveFromIPVS(t *testing.T) {
	text := `
#: names KUBE kube-ipvs0
#: relayed
#: in-ipvs -t 10.96.0.2:80
#: in-ipvs -u 10.96.0.2:53
#: in-ipvs -t 10.96.0.3:80
#: in-ipvs -t 10.96.0.4:80
create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536
create KUBE-VIRTUAL-SERVER hash:ip,port family inet hashsize 1024 maxelem 65536
add KUBE-CLUSTER-IP 10.96.0.2,tcp:80
add KUBE-CLUSTER-IP 10.96.0.3,tcp:80
add KUBE-VIRTUAL-SERVER 10.96.0.2,tcp:80
add KUBE-VIRTUAL-SERVER 10.96.0.3,tcp:80
add KUBE-VIRTUAL-SERVER 10.96.0.2,udp:53
-A -t 10.96.0.1:80 -s rr
-A -t 10.96.0.2:80 -s rr
-a -t 10.96.0.2:80 -r 10.2.0.1:80 -m -w 1
-A -t 10.96.0.3:80 -s rr
-A -t 10.96.0.4:80 -s lc
-A -u 10.96.0.2:53 -s rr
-a -u 10.96.0.2:53 -r 10.2.0.1:53 -m -w 1
`
	have, err := kernel.ParseObserved(strings.TrimPrefix(text, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := kernel.ParseObserved(`-A -t 10.96.0.1:80 -s wlc
-A -t 10.96.0.2:80 -s rr
-a -t 10.96.0.2:80 -r 10.2.0.1:80 -m -w 1
-A -t 10.96.0.4:80 -s rr
-A -u 10.96.0.2:53 -s rr
-a -u 10.96.0.2:53 -r 10.2.0.1:53 -m -w 1
`)
	if err != nil {
		t.Fatal(err)
	}
	p := Once(want.State, have)
	held := want.State
	held.Policy.Hold = true
	if !movesFlows(p) || !movesFlows(Once(held, have)) {
		t.Errorf("flows of IPVS stay, with hold or without:\n%s", p)
	}
	// What moves is open until the rules are gone: without the entry they refuse new connections.
	var got, closed []string
	for _, o := range p.Ops {
		switch o.Object.(type) {
		case kernel.Virtual, kernel.Real, kernel.Flow:
			got = append(got, o.String())
		case kernel.Entry:
			closed = append(closed, o.String())
		}
	}
	if !slices.Equal(closed, []string{"- del KUBE-CLUSTER-IP 10.96.0.3,tcp:80"}) {
		t.Errorf("closed: %q", closed)
	}
	wantOps := []string{
		"~ -E -t 10.96.0.1:80 -s wlc",
		"~ -E -t 10.96.0.2:80 -s rr",
		"~ -E -u 10.96.0.2:53 -s rr",
		"- -D -t 10.96.0.3:80",
	}
	for _, op := range wantOps {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, op) }) {
			t.Errorf("no %q in\n%s", op, strings.Join(got, "\n"))
		}
	}
	if len(p.Conflicts) != 1 || p.Conflicts[0].Want.Key.AddrPort() != netip.MustParseAddrPort("10.96.0.4:80") {
		t.Errorf("conflicts: %v", p.Conflicts)
	}
	after, _ := Advance(have, p.Ops)
	if len(after.InIPVS) != 1 || after.InIPVS[0] != p.Conflicts[0].Want.Key {
		t.Errorf("left in IPVS: %v", after.InIPVS)
	}
	failed := &kernel.ApplyError{}
	for i, o := range p.Ops {
		if o.Object.Kind() == kernel.KindFlow {
			failed.Failed = append(failed.Failed, &kernel.OpError{Index: i, Op: o, Err: errors.New("refused")})
		}
	}
	memory := After(kernel.Memory{}, kernel.Memory{}, p, failed)
	if again, _ := Diff(want.State, after, memory, kernel.Now{}); !movesFlows(again) {
		t.Errorf("flows of IPVS whose removal failed stay: %v", memory.Unremoved)
	}
	own := Owned(&after, nil)
	if !slices.Contains(own, want.Virtuals[0].Key) || slices.Contains(own, p.Conflicts[0].Want.Key) {
		t.Errorf("owned: %v", own)
	}
}

// movesFlows reports whether a plan removes the flows of the virtual server of UDP.
func movesFlows(p kernel.Plan) bool {
	return slices.ContainsFunc(p.Ops, func(o kernel.Op) bool {
		f, ok := o.Object.(kernel.Flow)
		return ok && f.Key.Addr == netip.MustParseAddrPort("10.2.0.1:53")
	})
}
