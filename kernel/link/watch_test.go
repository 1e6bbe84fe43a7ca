package link

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// soon is the longest time from a change to its report. It takes about 60 ms, of which 50 are the
// debounce. A new node address must have its node ports after two seconds.
const soon = 2 * time.Second

// watching watches the test's namespace for a device with our name.
type watching struct {
	*Subscription
	told  chan time.Time
	ended chan error
	stop  context.CancelFunc
}

func watch(t *testing.T) *watching {
	t.Helper()
	s, err := Subscribe(nil, "kube-ipvs0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w := &watching{s, make(chan time.Time), make(chan error, 1), stop}
	go func() { w.ended <- s.Watch(ctx, func() { w.told <- time.Now() }) }()
	t.Cleanup(stop)
	return w
}

// expect runs ip with each line, and each line must be reported. The shortest time of a few tries
// counts, because the machine may be busy.
func (w *watching) expect(t *testing.T, lines ...string) {
	t.Helper()
	least := time.Hour
	for _, line := range lines {
		kerneltest.Run(t, "ip", strings.Fields(line)...)
		start := time.Now()
		select {
		case at := <-w.told:
			least = min(least, at.Sub(start))
		case <-time.After(10 * time.Second):
			t.Fatalf("ip %s is not told", line)
		}
	}
	if len(lines) > 1 && least > soon {
		t.Errorf("told after %v", least)
	}
}

func TestWatch(t *testing.T) {
	withLinks(t)
	w := watch(t)
	w.expect(t,
		"addr add 192.0.2.10/24 dev eth0",
		"addr add 192.0.2.11/24 dev eth0",
		"addr add fd00:7::10/64 dev eth0 nodad",
		"route add default via 192.0.2.1",
		"-6 route add default via fd00:7::1",
		"route add default via 192.0.2.2 metric 9",
		"-6 route del default",
		"addr del 192.0.2.11/24 dev eth0",
		"link set eth0 down", // removes the IPv4 addresses without a message
	)
	w.expect(t, "addr add 203.0.113.1/32 dev lo")
}

func TestWatchOfOurOwnDevice(t *testing.T) {
	l := withDevice(t, nil)
	kerneltest.Run(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
	w := watch(t)
	apply(t, l, add(vips(1000)...))
	apply(t, l, add(vip("fd00:96::20"), viaLo("10.97.0.1"), viaLo("fd00:97::1")))
	w.expect(t, "addr add 192.0.2.10/24 dev eth0")
	w.expect(t, "link del kube-ipvs0")
	// A new device has another index.
	kerneltest.Run(t, "ip", "link", "add", "kube-ipvs0", "type", l.kind)
	read(t, l)
	apply(t, l, add(vips(1000)...))
	w.expect(t, "addr del 192.0.2.10/24 dev eth0")
	select {
	case <-w.told:
		t.Error("told twice")
	default:
	}
	w.stop()
	if err := <-w.ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestWatchOfOurRenamedDevice(t *testing.T) {
	withDevice(t, nil)
	watch(t).expect(t, "link set kube-ipvs0 name lost0")
}

// heard reads all waiting messages and returns their types. Those of links may come late, because
// the kernel reports a carrier asynchronously.
func heard(t *testing.T, f *os.File) (types []uint16) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	if err := raw.Read(func(fd uintptr) bool {
		for {
			n, _, err := unix.Recvfrom(int(fd), buf, 0)
			if err != nil {
				return true
			}
			messages, err := syscall.ParseNetlinkMessage(buf[:n])
			if err != nil {
				t.Error(err)
			}
			for _, m := range messages {
				types = append(types, m.Header.Type)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return types
}

func isLink(typ uint16) bool { return typ == unix.RTM_NEWLINK || typ == unix.RTM_DELLINK }

// The kernel drops messages about our own writes and about a router's routes.
func TestFilter(t *testing.T) {
	l := withDevice(t, nil)
	kerneltest.Run(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
	kerneltest.Run(t, "ip", "link", "set", "eth0", "up")
	f, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := l.lookup("kube-ipvs0")
	if err != nil {
		t.Fatal(err)
	}
	if err := nl.Attach(f, filter(d.index)); err != nil {
		t.Fatal(err)
	}
	apply(t, l, add(vips(1000)...))
	apply(t, l, add(vip("fd00:96::20"), viaLo("10.97.0.1"), viaLo("fd00:97::1")))
	for _, line := range []string{"route add 198.51.100.0/24 dev eth0", "route add default dev eth0 table 7", "-6 route add 2001:db8::/64 dev eth0"} {
		kerneltest.Run(t, "ip", strings.Fields(line)...)
	}
	if types := slices.DeleteFunc(heard(t, f), isLink); len(types) > 0 {
		t.Errorf("our own writes or other routes are heard: message types %v", types)
	}
	for _, line := range []string{"addr add 192.0.2.10/24 dev eth0", "route add default dev eth0", "-6 route add default dev eth0", "link set eth0 down"} {
		f, err := listen()
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Run(t, "ip", strings.Fields(line)...)
		types := heard(t, f)
		if line != "link set eth0 down" {
			types = slices.DeleteFunc(types, isLink)
		}
		if len(types) == 0 {
			t.Errorf("ip %s is not heard", line)
		}
		f.Close()
	}
}

// Lost changes are reported even if nothing differs.
func TestWatchOverflow(t *testing.T) {
	withLinks(t)
	w := watch(t)
	raw, err := w.events.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }); err != nil {
		t.Fatal(err)
	}
	kerneltest.Run(t, "ip", "addr", "add", "192.0.2.10/24", "dev", "eth0")
	// Nothing reads the channel, so Watch waits inside notify, or is about to.
	for range 30 {
		kerneltest.Run(t, "ip", "addr", "add", "192.0.2.11/24", "dev", "eth0")
		kerneltest.Run(t, "ip", "addr", "del", "192.0.2.11/24", "dev", "eth0")
	}
	for i := range 2 {
		select {
		case <-w.told:
		case <-time.After(10 * time.Second):
			t.Fatalf("told %d times", i)
		}
	}
}

// The kernel removes proxy neighbours when a link loses its carrier, and no message says so.
func TestCarrier(t *testing.T) {
	s := Subscription{device: "vips0", ours: 3, bearers: map[int]bool{2: true}}
	for i, step := range []struct {
		up   bool
		want verdict
	}{{true, reread}, {true, reread}, {false, reread}, {false, reread}, {true, report}, {true, reread}} {
		p := slices.Clone(linkMessage)
		p[4] = 2
		flags := uint32(unix.IFF_UP)
		if step.up {
			flags |= unix.IFF_LOWER_UP
		}
		binary.NativeEndian.PutUint32(p[8:], flags)
		if got := s.judgeMessage(unix.RTM_NEWLINK, p); got != step.want {
			t.Errorf("step %d, carrier %t: verdict %d, want %d", i, step.up, got, step.want)
		}
	}
}

func TestJudge(t *testing.T) {
	at := func(p []byte, index byte) []byte {
		p = slices.Clone(p)
		p[4] = index
		return p
	}
	port := slices.Clone(linkMessage)
	port[0] = unix.AF_BRIDGE
	loopbackAddr := slices.Clone(addr4Message)
	loopbackAddr[12], loopbackAddr[20] = 127, 127
	for _, tc := range []struct {
		what string
		typ  uint16
		p    []byte
		want verdict
	}{
		{"our device is made", unix.RTM_NEWLINK, at(linkMessage, 7), ignore},
		{"our device is renamed, or set up", unix.RTM_NEWLINK, linkMessage, report},
		{"our device is gone", unix.RTM_DELLINK, linkMessage, report},
		{"a container's link", unix.RTM_DELLINK, at(linkMessage, 9), ignore},
		{"the node's link", unix.RTM_DELLINK, at(linkMessage, 2), reread},
		{"a bridge's port", unix.RTM_DELLINK, port, ignore},
		{"an address of the node", unix.RTM_NEWADDR, addr4Message, reread},
		{"an address that goes", unix.RTM_DELADDR, addr4Message, reread},
		{"an address of ours", unix.RTM_NEWADDR, at(addr4Message, 3), ignore},
		{"a link-local address", unix.RTM_NEWADDR, addr6Message, ignore},
		{"a loopback address", unix.RTM_NEWADDR, loopbackAddr, ignore},
		{"a default route", unix.RTM_DELROUTE, routeMessage, reread},
		{"a VIP's route", unix.RTM_NEWROUTE, vipRouteMessage, ignore},
		{"a neighbour", unix.RTM_NEWNEIGH, proxyMessage, ignore},
		{"half a link", unix.RTM_NEWLINK, linkMessage[:7], report},
		{"half an address", unix.RTM_NEWADDR, addr4Message[:7], report},
		{"half a route", unix.RTM_NEWROUTE, routeMessage[:7], report},
	} {
		s := Subscription{device: "kube-ipvs0", ours: 3, bearers: map[int]bool{2: true}}
		if got := s.judgeMessage(tc.typ, tc.p); got != tc.want {
			t.Errorf("%s: verdict %d, want %d", tc.what, got, tc.want)
		}
	}
}
