package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

func viaLo(s string) kernel.Route { return kernel.Route{Addr: netip.MustParseAddr(s)} }

func readRoutes(t testing.TB, l *Links) string {
	t.Helper()
	routes, _, err := l.ReadRoutes()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(routes)
}

// localRoutes returns the routes of a VIP as ip shows them.
func localRoutes(t testing.TB, vip string) []string {
	t.Helper()
	family := "-4"
	if strings.Contains(vip, ":") {
		family = "-6"
	}
	return slices.Collect(strings.Lines(kerneltest.Run(t, "ip", family, "route", "show", "table", "local", vip)))
}

func TestRoutes(t *testing.T) {
	l := open(t, nil)
	kerneltest.Run(t, "ip", "route", "add", "local", "10.96.0.99", "dev", "lo", "proto", "142")
	kerneltest.Run(t, "ip", "route", "add", "local", "10.97.0.0/24", "dev", "lo", "proto", "143")
	kerneltest.Run(t, "ip", "-6", "route", "add", "local", "fd00:96::99", "dev", "lo", "proto", "142", "table", "local")
	if got := readRoutes(t, l); got != "[]" {
		t.Errorf("foreign routes are read: %s", got)
	}
	apply(t, l, add(viaLo("10.96.0.20"), viaLo("fd00:96::20"), viaLo("10.96.0.10"), viaLo("fd00:96::10")))
	const want = "[route add local 10.96.0.10/32 dev lo table local proto 143 route add local 10.96.0.20/32 dev lo table local proto 143 " +
		"route add local fd00:96::10/128 dev lo table local proto 143 route add local fd00:96::20/128 dev lo table local proto 143]"
	if got := readRoutes(t, l); got != want {
		t.Errorf("read %s", got)
	}
	for vip, want := range map[string]string{
		"10.96.0.20":  "local 10.96.0.20 dev lo proto 143 scope host",
		"fd00:96::20": "local fd00:96::20 dev lo proto 143",
	} {
		if got := localRoutes(t, vip); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("ip shows %q, want %q", got, want)
		}
		if out := kerneltest.Run(t, "ip", "route", "get", vip); !strings.HasPrefix(out, "local "+vip) {
			t.Errorf("%s is not local: %s", vip, out)
		}
	}

	ops := append(add(viaLo("10.96.0.20"), viaLo("fd00:96::20")),
		remove(viaLo("10.96.0.30"), viaLo("fd00:96::30"), viaLo("10.96.0.99"), viaLo("fd00:96::99"), viaLo("10.96.0.20"), viaLo("fd00:96::20"))...)
	errs := l.Apply(ops)
	for i, want := range []error{unix.EEXIST, unix.EEXIST, unix.ESRCH, unix.ESRCH, unix.ESRCH, unix.ESRCH, nil, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%s: %v, want %v", ops[i], errs[i], want)
		}
	}
	apply(t, l, remove(viaLo("10.96.0.10"), viaLo("fd00:96::10")))
	if got := readRoutes(t, l); got != "[]" {
		t.Errorf("left over: %s", got)
	}
	for _, vip := range []string{"10.96.0.99", "10.97.0.0/24", "fd00:96::99"} {
		if len(localRoutes(t, vip)) != 1 {
			t.Errorf("the foreign route of %s is gone", vip)
		}
	}
}

// A VIP changes from its address to a route and back. The new one comes first, so the VIP is local
// at each step.
func TestSwitchBetweenAddressAndRoute(t *testing.T) {
	l := withDevice(t, nil)
	for _, a := range []string{"10.96.0.20", "fd00:96::20"} {
		apply(t, l, add(vip(a)))
		local := func(step string, want int) {
			t.Helper()
			// The kernel makes the route of an IPv6 address after its answer. The next step is
			// another call of Apply, which does not wait for it.
			got := localRoutes(t, a)
			for range 1000 {
				if len(got) == want {
					break
				}
				time.Sleep(time.Millisecond)
				got = localRoutes(t, a)
			}
			if len(got) != want {
				t.Errorf("%s: %d routes: %q", step, len(got), got)
			}
			if out := kerneltest.Run(t, "ip", "route", "get", a); !strings.Contains(out, "local "+a) {
				t.Errorf("%s: %s is not local: %s", step, a, out)
			}
		}
		local("bound", 1)
		apply(t, l, add(viaLo(a)))
		local("bound and routed", 2)
		apply(t, l, remove(vip(a)))
		local("routed", 1)
		if got := readRoutes(t, l); !strings.Contains(got, a) {
			t.Errorf("the route went with the address: %s", got)
		}
		apply(t, l, add(vip(a)))
		local("routed and bound", 2)
		apply(t, l, remove(viaLo(a)))
		local("bound again", 1)
		if got, _ := read(t, l); !strings.Contains(got, a) {
			t.Errorf("the address went with the route: %s", got)
		}
	}
}

// The kernel makes the local route of an IPv6 address after its answer. Within one call of Apply,
// the VIP's own route must stay until then.
func TestSwitchToAddressLeavesNoGap(t *testing.T) {
	l := withDevice(t, nil)
	const a = "fd00:96::20"
	apply(t, l, add(viaLo(a)))
	for range 100 {
		apply(t, l, append(add(vip(a)), remove(viaLo(a))...))
		now := applying{Links: l}
		if err := now.readLocal(); err != nil || !now.local[netip.MustParseAddr(a)] {
			t.Fatalf("%s is nobody's: %v", a, err)
		}
		apply(t, l, append(add(viaLo(a)), remove(vip(a))...))
	}

	// If the address cannot be added, the VIP keeps its route.
	failing := kernel.Addr{Addr: netip.MustParseAddr(a), Link: "nothing"}
	if errs := l.Apply(append(add(failing), remove(viaLo(a))...)); errs[0] == nil || errs[1] == nil || len(localRoutes(t, a)) != 1 {
		t.Errorf("%v; routes %q", errs, localRoutes(t, a))
	}
}

func TestRouteSystemCalls(t *testing.T) {
	l := open(t, nil)
	const n = 1000
	objects := make([]kernel.Object, n)
	for i := range objects {
		objects[i] = kernel.Route{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}
	}
	before := l.Stats()
	apply(t, l, add(objects...))
	after := l.Stats()
	if calls, most := int(after.Sends-before.Sends+after.Receives-before.Receives), 2*((n+249)/250)+8; calls > most {
		t.Errorf("%d routes took %d system calls, want at most %d", n, calls, most)
	}
	if routes, _, err := l.ReadRoutes(); err != nil || len(routes) != n {
		t.Errorf("read %d routes: %v", len(routes), err)
	}
}
