package plan_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// While a sysctl that serving needs cannot be set, no VIP is opened or bound: the node
// would accept packets that it cannot masquerade. Open VIPs stay open.
func TestVIPsStayClosedWithoutTheirSysctls(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(plans, "build.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	a := txtar.Parse(text)
	want, have := parse(t, a.Files[0]), parse(t, a.Files[1])
	readOnly := true
	k := fake.New(kernel.DefaultNames, kernel.Node{}, have.State)
	k.Fail = func(o kernel.Op) error {
		if o.Object.Kind() == kernel.KindSysctl && readOnly {
			return syscall.EROFS
		}
		return nil
	}
	sync := func() error {
		o, err := k.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return k.Apply(t.Context(), plan.Once(want.State, o))
	}
	for range 2 { // it is tried again
		if err := sync(); !errors.Is(err, syscall.EROFS) {
			t.Errorf("error %v", err)
		}
		is := k.State()
		if len(is.Addrs) != 0 || len(is.Virtuals) != 0 || strings.Contains(is.String(), "add KUBE-CLUSTER-IP ") {
			t.Errorf("a VIP is open without vs.conntrack:\n%s", is)
		}
	}
	readOnly = false
	if err := sync(); err != nil || len(k.State().Addrs) != 1 {
		t.Errorf("when it can be set: %v\n%s", err, k.State())
	}

	// A change while it cannot be set again leaves open VIPs alone and opens no others.
	readOnly = true
	for i := range want.Sysctls {
		want.Sysctls[i].Value = "2"
	}
	more := kernel.Addr{Addr: netip.MustParseAddr("10.96.0.2"), Link: "kube-ipvs0"}
	want.Addrs = append(want.Addrs, more)
	if err := sync(); !errors.Is(err, syscall.EROFS) || len(k.State().Addrs) != 1 || len(k.State().Virtuals) != 1 {
		t.Errorf("%v\n%s", err, k.State())
	}
}

// Forwarding of IPv6 stays on after the last IPv6 service: another program that needs it may have found it on. It is
// restored with that of IPv4.
func TestForwardingOfIPv6Stays(t *testing.T) {
	const v4, v6 = "net.ipv4.ip_forward", kernel.ForwardingIPv6
	have := kernel.Observed{Names: kernel.DefaultNames, State: kernel.State{Sysctls: []kernel.Sysctl{{Name: v4, Value: "1"}, {Name: v6, Value: "1"}}}}
	have.Saved = []kernel.Saved{{Name: v4, Before: "0", Ours: "1"}, {Name: v6, Before: "0", Ours: "1"}}
	if p := plan.Once(kernel.State{Sysctls: []kernel.Sysctl{{Name: v4, Value: "1"}}}, have); !p.Empty() {
		t.Errorf("without IPv6 services: %v", p.Ops)
	}
	if p := plan.Once(kernel.State{}, have); len(p.Ops) != 2 {
		t.Errorf("cleanup: %v, want both restored", p.Ops)
	}
}

// A default route of a router's advertisement stays: the kernel heeds advertisements of the link before it forwards,
// and as long as it does.
func TestAdvertisementsAreHeeded(t *testing.T) {
	const v4 = "net.ipv4.ip_forward"
	accept := kernel.AcceptRA("eth0.100")
	state := func(names []string, values ...string) (s kernel.State) {
		for i, name := range names {
			s.Sysctls = append(s.Sysctls, kernel.Sysctl{Name: name, Value: values[i]})
		}
		return s
	}
	names := []string{v4, kernel.ForwardingIPv6, accept}
	want := state(names, "1", "1", "2")
	want.Sysctls[2].Over = "1"

	p := plan.Once(want, kernel.Observed{Names: kernel.DefaultNames, State: state(names, "1", "0", "1")})
	if want := "[net.ipv6.conf.eth0/100.accept_ra = 2 net.ipv6.conf.all.forwarding = 1]"; fmt.Sprint(objects(p)) != want {
		t.Errorf("the first IPv6 service: %v, want %s", objects(p), want)
	}
	p = plan.Once(want, kernel.Observed{Names: kernel.DefaultNames, State: state(names, "1", "0", "0")})
	if want := "[net.ipv6.conf.all.forwarding = 1]"; fmt.Sprint(objects(p)) != want {
		t.Errorf("where another program handles advertisements: %v, want %s", objects(p), want)
	}

	have := kernel.Observed{Names: kernel.DefaultNames, State: state(names, "1", "1", "2")}
	have.Saved = []kernel.Saved{{Name: kernel.ForwardingIPv6, Before: "0", Ours: "1"}, {Name: accept, Before: "1", Ours: "2"}}
	if p := plan.Once(state(names[:2], "1", "1"), have); !p.Empty() {
		t.Errorf("when the router is silent for a while: %v", p.Ops)
	}
	if p := plan.Once(kernel.State{}, have); len(p.Ops) != 2 {
		t.Errorf("cleanup: %v, want both restored", p.Ops)
	}
}

func objects(p kernel.Plan) (all []kernel.Object) {
	for _, o := range p.Ops {
		all = append(all, o.Object)
	}
	return all
}
