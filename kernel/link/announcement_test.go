package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

func announced(s string, table, metric uint32) kernel.Announcement {
	return kernel.Announcement{Addr: netip.MustParseAddr(s), Table: table, Metric: metric}
}

func readAnnounced(t testing.TB, l *Links) string {
	t.Helper()
	_, all, err := l.ReadRoutes()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(all)
}

// Routes of other programs to the same VIP in the same table are neither read, replaced nor removed.
func TestAnnouncements(t *testing.T) {
	l := open(t, nil)
	foreign := []string{
		"unreachable 10.96.0.9 table 143 proto bird metric 100", "blackhole 10.96.0.1 table 143 proto 143 metric 100",
		"unreachable 10.97.0.0/24 table 143 proto 143", "unreachable fd00:96::9 table 143 proto bird metric 100", "unreachable 10.96.0.1 proto static metric 7",
	}
	for _, r := range foreign {
		kerneltest.Run(t, "ip", append([]string{"route", "add"}, strings.Fields(r)...)...)
	}
	if got := readAnnounced(t, l); got != "[]" {
		t.Errorf("foreign routes are read: %s", got)
	}
	ours := []kernel.Object{announced("10.96.0.1", 143, 101), announced("10.96.0.1", 1000, 101), announced("fd00:96::1", 143, 101), announced("10.96.0.2", 254, 101)}
	apply(t, l, add(ours...))
	const want = "[route add unreachable 10.96.0.1/32 table 143 metric 101 proto 143 route add unreachable 10.96.0.1/32 table 1000 metric 101 proto 143 " +
		"route add unreachable 10.96.0.2/32 table 254 metric 101 proto 143 route add unreachable fd00:96::1/128 table 143 metric 101 proto 143]"
	if got := readAnnounced(t, l); got != want {
		t.Errorf("read %s\nwant %s", got, want)
	}
	if out := kerneltest.Run(t, "ip", "route", "show", "table", "143", "10.96.0.1"); !strings.Contains(out, "unreachable 10.96.0.1 proto 143 metric 101") {
		t.Errorf("ip shows %q", out)
	}
	taken := []kernel.Object{announced("10.96.0.9", 143, 100), announced("10.96.0.1", 143, 100), announced("fd00:96::9", 143, 100)}
	for i, err := range l.Apply(add(taken...)) {
		if !errors.Is(err, unix.EEXIST) || !strings.Contains(err.Error(), "another program has a route") {
			t.Errorf("%s beside a foreign route: %v", taken[i], err)
		}
	}
	for i, err := range l.Apply(remove(taken...)) {
		if !errors.Is(err, unix.ESRCH) {
			t.Errorf("removing the foreign route as %s: %v", taken[i], err)
		}
	}
	apply(t, l, remove(ours...))
	if got := readAnnounced(t, l); got != "[]" {
		t.Errorf("left over: %s", got)
	}
	for _, r := range foreign {
		f := strings.Fields(r)
		table := "main"
		if i := slices.Index(f, "table"); i > 0 {
			table = f[i+1]
		}
		if out := kerneltest.Run(t, "ip", family(f[1]), "route", "show", "table", table, f[1]); !strings.HasPrefix(out, f[0]+" "+f[1]) {
			t.Errorf("the foreign route %q is gone: %q", r, out)
		}
	}
}

// family is ip's flag for the family of an address.
func family(addr string) string {
	if strings.Contains(addr, ":") {
		return "-6"
	}
	return "-4"
}

// announcementMessage is what Linux 6.1 answers for: unreachable 10.96.0.20 table 1000 metric 101 proto 143.
var announcementMessage = routeBytes(unix.RTN_UNREACHABLE, 0, []byte{10, 96, 0, 20}, 1000, 101)

// routeBytes is a struct rtmsg with destination, table and metric, as fib_dump_info of net/ipv4 writes it.
func routeBytes(kind, table byte, dst []byte, full, metric uint32) []byte {
	p := []byte{unix.AF_INET, byte(8 * len(dst)), 0, 0, table, kernel.RouteProtocol, unix.RT_SCOPE_UNIVERSE, kind, 0, 0, 0, 0}
	u32 := func(kind byte, n uint32) {
		p = append(p, 8, 0, kind, 0, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	u32(unix.RTA_TABLE, full)
	p = append(append(p, 8, 0, unix.RTA_DST, 0), dst...)
	u32(unix.RTA_PRIORITY, metric)
	return p
}

func TestDecodeAnnouncement(t *testing.T) {
	if o, ok, err := decodeAnnouncement(announcementMessage); !ok || err != nil || o != announced("10.96.0.20", 1000, 101) {
		t.Errorf("got %v, %v and %v", o, ok, err)
	}
	for what, at := range map[string]struct {
		offset int
		value  byte
	}{
		"a network": {1, 24}, "a TOS": {3, 4}, "BIRD's": {5, unix.RTPROT_BIRD}, "a blackhole": {7, unix.RTN_BLACKHOLE}, "a cloned one": {9, unix.RTM_F_CLONED >> 8},
	} {
		p := slices.Clone(announcementMessage)
		p[at.offset] = at.value
		if o, ok, err := decodeAnnouncement(p); ok || err != nil {
			t.Errorf("%s: %v, %v and %v", what, o, ok, err)
		}
	}
}
