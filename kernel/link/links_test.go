package link

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

func open(t testing.TB, d *nl.Dialer) *Links {
	t.Helper()
	kerneltest.NewNamespace(t)
	l, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// withDevice makes our device in a new namespace. If the kernel has no dummy devices it makes an
// ifb device, which can hold addresses too.
func withDevice(t testing.TB, d *nl.Dialer) *Links {
	t.Helper()
	l := open(t, d)
	var missing *kernel.MissingError
	if err := l.Available(); errors.As(err, &missing) && os.Getenv("SVCPROXY_GUEST") != "1" {
		l.kind = "ifb"
		if l.Available() != nil {
			t.Skip("this kernel has neither dummy nor ifb devices")
		}
	} else if err != nil {
		t.Fatal(err)
	}
	apply(t, l, add(kernel.Link{Name: "kube-ipvs0", Type: l.kind}))
	return l
}

func op(v kernel.Verb, objects ...kernel.Object) []kernel.Op {
	ops := make([]kernel.Op, len(objects))
	for i, o := range objects {
		ops[i] = kernel.Op{Verb: v, Object: o}
	}
	return ops
}

func add(objects ...kernel.Object) []kernel.Op    { return op(kernel.Add, objects...) }
func remove(objects ...kernel.Object) []kernel.Op { return op(kernel.Remove, objects...) }

func vip(s string) kernel.Addr { return kernel.Addr{Addr: netip.MustParseAddr(s), Link: "kube-ipvs0"} }

func apply(t testing.TB, l *Links, ops []kernel.Op) {
	t.Helper()
	if err := kernel.Failures(ops, l.Apply(ops)); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, l *Links) (string, kernel.Node) {
	t.Helper()
	links, addrs, node, err := l.Read(kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	return kernel.State{Links: links, Addrs: addrs}.String(), node
}

func TestAddresses(t *testing.T) {
	l := withDevice(t, nil)
	apply(t, l, add(vip("10.96.0.20"), vip("fd00:96::20"), vip("10.96.0.10"), vip("fd00:96::10")))
	want := "link add kube-ipvs0 type " + l.kind + `
addr add 10.96.0.10/32 dev kube-ipvs0
addr add 10.96.0.20/32 dev kube-ipvs0
addr add fd00:96::10/128 dev kube-ipvs0
addr add fd00:96::20/128 dev kube-ipvs0
`
	if got, _ := read(t, l); got != want {
		t.Errorf("we read\n%s", got)
	}
	out := kerneltest.Run(t, "ip", "-o", "addr", "show", "dev", "kube-ipvs0")
	for _, word := range []string{"inet 10.96.0.20/32 scope global kube-ipvs0", "inet6 fd00:96::20/128 scope global"} {
		if !strings.Contains(out, word) {
			t.Errorf("ip shows no %q:\n%s", word, out)
		}
	}
	if strings.Contains(out, "tentative") {
		t.Errorf("an address waits for duplicate detection:\n%s", out)
	}
	if out := kerneltest.Run(t, "ip", "-o", "link", "show", "kube-ipvs0"); !strings.Contains(out, "state DOWN") || strings.Contains(out, ",UP") {
		t.Errorf("the device is not down: %s", out)
	}

	ops := append(add(vip("10.96.0.20"), vip("fd00:96::20"), vip("10.96.0.30")), remove(vip("10.9.9.9"), vip("fd00:9::9"), vip("10.96.0.10"))...)
	errs := l.Apply(ops)
	for i, want := range []error{unix.EEXIST, unix.EEXIST, nil, unix.EADDRNOTAVAIL, unix.EADDRNOTAVAIL, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%s: %v, want %v", ops[i], errs[i], want)
		}
	}
	apply(t, l, remove(vip("fd00:96::20"), vip("fd00:96::10"), kernel.Link{Name: "kube-ipvs0", Type: l.kind}))
	if got, _ := read(t, l); got != "" {
		t.Errorf("left over:\n%s", got)
	}
}

func TestDeviceAndAddressesInOneGo(t *testing.T) {
	l := withDevice(t, nil)
	device := kernel.Link{Name: "kube-ipvs0", Type: l.kind}
	apply(t, l, remove(device))
	apply(t, l, add(device, vip("10.96.0.20"), vip("fd00:96::20")))
	if got, _ := read(t, l); strings.Count(got, "\n") != 3 {
		t.Errorf("read\n%s", got)
	}
}

func TestNoDevice(t *testing.T) {
	l := open(t, nil)
	before := l.Stats()
	ops := append(add(vip("10.96.0.20"), vip("fd00:96::20")), remove(kernel.Link{Name: "kube-ipvs0", Type: dummy}, vip("10.96.0.20"))...)
	for i, err := range l.Apply(ops) {
		if !errors.Is(err, unix.ENODEV) {
			t.Errorf("%s: %v, want ENODEV", ops[i], err)
		}
	}
	if s := l.Stats(); s.Queries-before.Queries > 1 {
		t.Errorf("asked %d times for the device", s.Queries-before.Queries)
	}
	if got, _ := read(t, l); got != "" {
		t.Errorf("read\n%s", got)
	}
}

func TestDeviceExists(t *testing.T) {
	l := withDevice(t, nil)
	if err := l.Apply(add(kernel.Link{Name: "kube-ipvs0", Type: l.kind}))[0]; !errors.Is(err, unix.EEXIST) {
		t.Errorf("adding it again: %v", err)
	}
}

func TestAvailableMakesNoDevice(t *testing.T) {
	l := open(t, nil)
	before := kerneltest.Run(t, "ip", "-o", "link")
	for _, kind := range []string{dummy, "ifb", "nonsense"} {
		l.kind = kind
		var missing *kernel.MissingError
		if err := l.Available(); err != nil && !errors.As(err, &missing) || err == nil && kind == "nonsense" {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if after := kerneltest.Run(t, "ip", "-o", "link"); after != before {
		t.Errorf("links were\n%s, are\n%s", before, after)
	}
	if err := l.Apply(add(kernel.Link{Name: "kube-ipvs0", Type: "nonsense"}))[0]; !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("a device of no kind: %v", err)
	}
}

// A device that another process replaces gets another index.
func TestDeviceReplaced(t *testing.T) {
	l := withDevice(t, nil)
	apply(t, l, add(vip("10.96.0.20")))
	kerneltest.Run(t, "ip", "link", "del", "kube-ipvs0")
	kerneltest.Run(t, "ip", "link", "add", "kube-ipvs0", "type", l.kind)
	if err := l.Apply(add(vip("10.96.0.20")))[0]; !errors.Is(err, unix.ENODEV) {
		t.Errorf("the first try: %v, want ENODEV", err)
	}
	apply(t, l, add(vip("10.96.0.20")))
}

// A device that another program renamed is found by its index. Its addresses do not count as the
// node's. It gets its name back and keeps its addresses.
func TestRenamedDevice(t *testing.T) {
	l := withDevice(t, nil)
	apply(t, l, add(vip("10.96.0.20"), vip("fd00:96::20")))
	before, _ := read(t, l)
	kerneltest.Run(t, "ip", "link", "set", "kube-ipvs0", "name", "lost0")
	got, node := read(t, l)
	if want := strings.Replace(before, "link add kube-ipvs0", "link add lost0", 1); got != want || len(node.Addrs) != 0 {
		t.Errorf("node %v, read\n%s", node.Addrs, got)
	}
	back := plan.Once(kernel.State{Links: []kernel.Link{{Name: "kube-ipvs0", Type: l.kind}}},
		kernel.Observed{State: kernel.State{Links: []kernel.Link{{Name: "lost0", Type: l.kind}}}})
	if got, want := back.String(), "~ link set lost0 name kube-ipvs0 (was link add lost0 type "+l.kind+")\n0 to add, 1 to change, 0 to remove\n"; got != want {
		t.Errorf("plan:\n%s", got)
	}
	apply(t, l, back.Ops)
	if after, _ := read(t, l); after != before {
		t.Errorf("afterwards\n%s", after)
	}

	// A later process has seen no index, and where there are no sets it knows no VIPs.
	kerneltest.Run(t, "ip", "link", "set", "kube-ipvs0", "name", "lost0")
	later, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	later.kind = l.kind
	if found, _ := read(t, later); found != got || !later.Made(kernel.DefaultNames) || later.Made(kernel.Names{Device: "edge0"}) {
		t.Errorf("a later process reads\n%s", found)
	}
}

func TestForeignDevice(t *testing.T) {
	l := open(t, nil)
	kerneltest.Run(t, "ip", "link", "add", "kube-ipvs0", "type", "bridge")
	_, _, _, err := l.Read(kernel.DefaultNames)
	var f *ForeignError
	if !errors.As(err, &f) || f.Kind != "bridge" {
		t.Errorf("reading: %v", err)
	}
	t.Log(err)
	ops := append(add(vip("10.96.0.20")), remove(kernel.Link{Name: "kube-ipvs0", Type: dummy})...)
	for i, err := range l.Apply(ops) {
		if !errors.As(err, &f) || !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("%s: %v", ops[i], err)
		}
	}
	kerneltest.Run(t, "ip", "link", "show", "kube-ipvs0")
	if _, _, _, err := l.Read(kernel.Names{Prefix: "KUBE", Device: "lo"}); !errors.As(err, &f) {
		t.Errorf("taking lo for ours: %v", err)
	}
}

func TestAddressesOfAnotherLengthCanBeRemoved(t *testing.T) {
	l := withDevice(t, nil)
	kerneltest.Run(t, "ip", "addr", "add", "10.96.0.1/24", "dev", "kube-ipvs0")
	kerneltest.Run(t, "ip", "addr", "add", "fd00:96::1/64", "dev", "kube-ipvs0", "nodad")
	kerneltest.Run(t, "ip", "addr", "add", "fe80::1/64", "dev", "kube-ipvs0", "nodad")
	got, node := read(t, l)
	if !strings.Contains(got, "10.96.0.1/32") || !strings.Contains(got, "fd00:96::1/128") || strings.Contains(got, "fe80") {
		t.Errorf("read\n%s", got)
	}
	if len(node.Addrs) != 0 {
		t.Errorf("our device's addresses count as the node's: %v", node.Addrs)
	}
	apply(t, l, remove(vip("10.96.0.1"), vip("fd00:96::1")))
	if out := kerneltest.Run(t, "ip", "addr", "show", "dev", "kube-ipvs0"); strings.Contains(out, "::1/64 scope global") || strings.Contains(out, "10.96") {
		t.Errorf("left:\n%s", out)
	}
}

func TestIPv6SwitchedOff(t *testing.T) {
	l := withDevice(t, nil)
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/kube-ipvs0/disable_ipv6", []byte("1"), 0); err != nil {
		t.Skip(err)
	}
	errs := l.Apply(add(vip("fd00:96::20"), vip("10.96.0.20")))
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "disable_ipv6") || errs[1] != nil {
		t.Errorf("errors %v", errs)
	}
}

func TestNodeFacts(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("ip"))
	l := withDevice(t, nil)
	apply(t, l, add(vip("10.96.0.20"), vip("fd00:96::20")))
	if _, node := read(t, l); len(node.Addrs) != 0 || node.Primary4.IsValid() || node.Release.Major < 4 {
		t.Errorf("a bare namespace: %+v", node)
	}
	for _, line := range []string{
		"link add eth0 type veth peer name eth1",
		"link set eth0 up", "link set eth1 up",
		"addr add 192.0.2.10/24 dev eth0",
		"addr add 192.0.2.11/24 dev eth0",
		"addr add 10.0.0.7/24 dev eth1",
		"addr add 10.0.9.1 peer 10.0.9.2 dev eth1",
		"addr add 203.0.113.1/32 dev lo",
		"addr add 169.254.7.7/16 dev eth1",
		"addr add fd00:7::10/64 dev eth0 nodad",
		"addr add 2001:db8::10/64 dev eth0 nodad",
		"route add default via 10.0.0.1 dev eth1 metric 200",
		"route add default via 192.0.2.1 dev eth0 metric 100",
		"-6 route add default via fe80::1 dev eth0 proto ra",
		"route add 198.51.100.0/24 via 192.0.2.200",
	} {
		kerneltest.Run(t, "ip", strings.Fields(line)...)
	}
	_, node := read(t, l)
	got := kernel.Observed{Node: node}.String()
	for _, want := range []string{
		"#: address 10.0.0.7/24 dev eth1\n#: address 10.0.9.1/32 dev eth1\n#: address 192.0.2.10/24 dev eth0\n#: address 192.0.2.11/24 dev eth0\n" +
			"#: address 203.0.113.1/32 dev lo\n#: address 2001:db8::10/64 dev eth0\n#: address fd00:7::10/64 dev eth0\n",
		"#: primary 192.0.2.10\n#: primary 2001:db8::10\n",
		"#: gateway 10.0.0.1\n#: gateway 192.0.2.1\n#: gateway fe80::1\n#: advertised eth0\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want\n%sin\n%s", want, got)
		}
	}
	if strings.Contains(got, "169.254") || strings.Contains(got, "127.0.0") {
		t.Errorf("link-local or loopback addresses:\n%s", got)
	}

	for _, line := range []string{
		"route replace default src 203.0.113.1 metric 10 nexthop via 192.0.2.2 dev eth0 nexthop via 10.0.0.2 dev eth1",
		"route add default via inet6 fe80::7 dev eth1 metric 300",
	} {
		kerneltest.Run(t, "ip", strings.Fields(line)...)
	}
	_, node = read(t, l)
	if node.Primary4 != netip.MustParseAddr("203.0.113.1") {
		t.Errorf("primary %s is not what the route prefers", node.Primary4)
	}
	if s := (kernel.Observed{Node: node}).String(); !strings.Contains(s, "gateway 10.0.0.2\n") || !strings.Contains(s, "gateway 192.0.2.2\n") || !strings.Contains(s, "gateway fe80::7\n") {
		t.Errorf("not every next hop is a gateway:\n%s", s)
	}
}

// Packets of a bridge pass iptables if the bridge's own option or the common sysctl says so, and
// never without the module.
func TestBridges(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("ip"))
	l := withDevice(t, nil)
	for _, line := range []string{
		"link add br0 type bridge", "link add br1 type bridge nf_call_ip6tables 1", "link add br2 type bridge", "link add eth0 type veth peer name eth1",
		"addr add 10.2.0.1/24 dev br1", "addr add 10.3.0.1/24 dev br0", "addr add 10.4.0.1/24 dev eth0",
	} {
		kerneltest.Run(t, "ip", strings.Fields(line)...)
	}
	all := []byte("1")
	_, err := os.Stat("/proc/sys/net/bridge")
	module := err == nil
	for _, sysctl := range []string{"1", "0"} {
		if module {
			if err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte(sysctl), 0); err != nil {
				t.Fatal(err)
			}
			if all, err = os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-ip6tables"); err != nil {
				t.Fatal(err)
			}
		}
		four, six := module && sysctl == "1", module && strings.TrimSpace(string(all)) == "1"
		want := []kernel.Bridge{{Link: "br0", Filtered4: four, Filtered6: six}, {Link: "br1", Filtered4: four, Filtered6: module}}
		if _, node := read(t, l); !slices.Equal(node.Bridges, want) {
			t.Errorf("with the module %t, sysctl %s: %+v, want %+v", module, sysctl, node.Bridges, want)
		}
	}
}

// deaf drops every answer while now is true.
type deaf struct {
	nl.Transport
	now *bool
}

func (d deaf) Receive(p []byte) (int, error) {
	if *d.now {
		return 0, nl.ErrTimeout
	}
	return d.Transport.Receive(p)
}

func TestLostAnswer(t *testing.T) {
	now := false
	l := withDevice(t, &nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport { return deaf{tr, &now} }})
	apply(t, l, add(vip("10.96.0.10")))
	now = true
	if err := l.Apply(add(vip("10.96.0.20")))[0]; !errors.Is(err, kernel.ErrUnknownOutcome) {
		t.Errorf("error %v", err)
	}
	now = false
	if got, _ := read(t, l); !strings.Contains(got, "10.96.0.20/32") {
		t.Errorf("read\n%s", got)
	}
}

// After a lost answer the netlink handle is closed, and the next call opens another.
func TestLostAnswerOfTheHandle(t *testing.T) {
	l := withDevice(t, nil)
	if err := l.refusal(unix.EAGAIN); !errors.Is(err, nl.ErrUnknown) || !errors.Is(err, nl.ErrTimeout) || l.handle != nil {
		t.Errorf("error %v, handle %v", err, l.handle)
	}
	device := kernel.Link{Name: "kube-ipvs0", Type: l.kind}
	apply(t, l, remove(device))
	if err := l.Apply(remove(device))[0]; !errors.Is(err, unix.ENODEV) || l.handle == nil {
		t.Errorf("error %v, handle %v", err, l.handle)
	}
}

func vips(n int) []kernel.Object {
	objects := make([]kernel.Object, n)
	for i := range objects {
		objects[i] = kernel.Addr{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Link: "kube-ipvs0"}
	}
	return objects
}

func TestSystemCalls(t *testing.T) {
	l := withDevice(t, nil)
	const n = 1000
	objects := vips(n)
	before := l.Stats()
	apply(t, l, add(objects...))
	after := l.Stats()
	if calls, most := int(after.Sends-before.Sends+after.Receives-before.Receives), 2*((n+249)/250)+8; calls > most {
		t.Errorf("%d addresses took %d system calls, want at most %d", n, calls, most)
	}
	if got, _ := read(t, l); strings.Count(got, "\n") != n+1 {
		t.Errorf("read %d lines", strings.Count(got, "\n"))
	}
	before = l.Stats()
	apply(t, l, remove(objects[7]))
	after = l.Stats()
	if after.Sends-before.Sends != 1 || after.Receives-before.Receives != 1 || after.Queries != before.Queries {
		t.Errorf("one address took %+v, then %+v", before, after)
	}
}

func BenchmarkAdd1000(b *testing.B) {
	l := withDevice(b, nil)
	objects := vips(1000)
	ops, gone := add(objects...), remove(objects...)
	for b.Loop() {
		apply(b, l, ops)
		b.StopTimer()
		apply(b, l, gone)
		b.StartTimer()
	}
}

func BenchmarkRead1000(b *testing.B) {
	l := withDevice(b, nil)
	apply(b, l, add(vips(1000)...))
	b.ReportAllocs()
	for b.Loop() {
		if _, addrs, _, err := l.Read(kernel.DefaultNames); err != nil || len(addrs) != 1000 {
			b.Fatal(len(addrs), err)
		}
	}
}
