package link

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// Messages of Linux 6.18 without their netlink headers, cut to the attributes that matter.
var (
	linkMessage = []byte{
		0, 0, 1, 0, 3, 0, 0, 0, 0x82, 0, 0, 0, 0, 0, 0, 0,
		15, 0, 3, 0, 'k', 'u', 'b', 'e', '-', 'i', 'p', 'v', 's', '0', 0, 0,
		16, 0, 18, 0, 10, 0, 1, 0, 'd', 'u', 'm', 'm', 'y', 0, 0, 0,
	}
	addr4Message = []byte{
		2, 24, 0x80, 0, 2, 0, 0, 0,
		8, 0, 1, 0, 192, 0, 2, 10, 8, 0, 2, 0, 192, 0, 2, 10, 8, 0, 8, 0, 0x80, 0, 0, 0,
	}
	peerMessage = []byte{
		2, 32, 0x80, 0, 2, 0, 0, 0,
		8, 0, 1, 0, 10, 0, 9, 2, 8, 0, 2, 0, 10, 0, 9, 1,
	}
	addr6Message = []byte{
		10, 64, 0, 253, 2, 0, 0, 0,
		20, 0, 1, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 8, 0, 8, 0, 0x80, 2, 0, 0,
	}
	routeMessage = []byte{
		2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0,
		8, 0, 15, 0, 254, 0, 0, 0, 8, 0, 6, 0, 100, 0, 0, 0, 8, 0, 5, 0, 192, 0, 2, 1, 8, 0, 4, 0, 2, 0, 0, 0,
	}
	multipathMessage = []byte{
		2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0,
		8, 0, 7, 0, 203, 0, 113, 1,
		36, 0, 9, 0,
		16, 0, 0, 0, 2, 0, 0, 0, 8, 0, 5, 0, 192, 0, 2, 2,
		16, 0, 0, 0, 3, 0, 0, 0, 8, 0, 5, 0, 10, 0, 0, 2,
	}
	viaMessage = []byte{
		2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0,
		22, 0, 18, 0, 10, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 8, 0, 4, 0, 3, 0, 0, 0,
	}
	advertisedMessage = []byte{
		10, 0, 0, 0, 254, 9, 0, 1, 0, 0, 0, 0,
		8, 0, 6, 0, 0, 4, 0, 0, 20, 0, 5, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 0, 4, 0, 2, 0, 0, 0,
	}
	vipRouteMessage = []byte{
		2, 32, 0, 0, 255, 143, 254, 2, 0, 0, 0, 0,
		8, 0, 15, 0, 255, 0, 0, 0, 8, 0, 1, 0, 10, 96, 0, 20, 8, 0, 4, 0, 1, 0, 0, 0,
	}
	proxyMessage = []byte{
		10, 0, 0, 0, 3, 0, 0, 0, 0, 0, 8, 5,
		20, 0, 1, 0, 0xfd, 0, 0, 0x96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 5, 0, 12, 0, 143, 0, 0, 0,
	}
)

func TestDecodeLink(t *testing.T) {
	d, err := decodeLink(linkMessage)
	if want := (device{index: 3, name: "kube-ipvs0", kind: "dummy"}); err != nil || d != want {
		t.Errorf("got %+v and %v", d, err)
	}
}

func TestDecodeAddr(t *testing.T) {
	for want, p := range map[address][]byte{
		{prefix: netip.MustParsePrefix("192.0.2.10/24"), index: 2, flags: unix.IFA_F_PERMANENT}:                                                    addr4Message,
		{prefix: netip.MustParsePrefix("10.0.9.1/32"), index: 2, flags: unix.IFA_F_PERMANENT}:                                                      peerMessage,
		{prefix: netip.MustParsePrefix("fe80::1/64"), index: 2, scope: unix.RT_SCOPE_LINK, flags: unix.IFA_F_PERMANENT | unix.IFA_F_NOPREFIXROUTE}: addr6Message,
	} {
		if got, ok, err := decodeAddr(p); !ok || err != nil || got != want {
			t.Errorf("got %+v, %v and %v, want %+v", got, ok, err, want)
		}
	}
	if _, ok, err := decodeAddr([]byte{45, 8, 0, 0, 2, 0, 0, 0}); ok || err != nil { // AF_MCTP
		t.Errorf("another family: %v and %v", ok, err)
	}
}

func text(r route) string {
	return fmt.Sprint(r.metric, " ", r.source, " ", r.device, " ", r.gateways, " ", r.advertised)
}

func TestDecodeRoute(t *testing.T) {
	for want, p := range map[string][]byte{
		"100 invalid IP 2 [192.0.2.1] false":         routeMessage,
		"0 203.0.113.1 2 [192.0.2.2 10.0.0.2] false": multipathMessage,
		"0 invalid IP 3 [fe80::7] false":             viaMessage,
		"1024 invalid IP 2 [fe80::7] true":           advertisedMessage,
	} {
		r, ok, err := decodeRoute(p)
		if !ok || err != nil || text(r) != want {
			t.Errorf("got %q, %v and %v, want %q", text(r), ok, err, want)
		}
	}
	local := slices.Clone(routeMessage)
	local[4] = unix.RT_TABLE_LOCAL
	if _, ok, err := decodeRoute(local); ok || err != nil {
		t.Errorf("another table: %v and %v", ok, err)
	}
}

func TestPrimary(t *testing.T) {
	at := func(p string, index int, flags uint32) address {
		return address{prefix: netip.MustParsePrefix(p), index: index, flags: flags}
	}
	addrs := []address{
		at("203.0.113.1/32", 1, 0),
		at("2001:db8:1::1/128", 1, 0),
		at("192.0.2.5/24", 2, 0),
		at("192.0.3.5/24", 2, 0),
		at("fd00::5/64", 2, 0),
		at("2001:db8::dead/64", 2, unix.IFA_F_DEPRECATED),
		at("2001:db8::5/64", 2, 0),
	}
	gateway := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	for name, tc := range map[string]struct {
		routes []route
		want   string
	}{
		"none":                      {nil, "invalid IP"},
		"the gateway's network":     {[]route{{family: kernel.IPv4, device: 2, gateways: gateway("192.0.3.1")}}, "192.0.3.5"},
		"first of the device":       {[]route{{family: kernel.IPv4, device: 2}}, "192.0.2.5"},
		"unnumbered device":         {[]route{{family: kernel.IPv4, device: 3}}, "203.0.113.1"},
		"lowest metric":             {[]route{{family: kernel.IPv4, device: 3, metric: 9}, {family: kernel.IPv4, device: 2, metric: 8}}, "192.0.2.5"},
		"preferred":                 {[]route{{family: kernel.IPv4, device: 2, source: netip.MustParseAddr("192.0.3.5")}}, "192.0.3.5"},
		"global before local":       {[]route{{family: kernel.IPv6, device: 2, gateways: gateway("fe80::1")}}, "2001:db8::5"},
		"IPv6 on an unnumbered one": {[]route{{family: kernel.IPv6, device: 3}}, "2001:db8:1::1"},
	} {
		f := kernel.IPv4
		if len(tc.routes) > 0 {
			f = tc.routes[0].family
		}
		if got := primary(f, tc.routes, addrs); got.String() != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestRelease(t *testing.T) {
	for s, want := range map[string]kernel.Release{"6.1.0-37-amd64": {Major: 6, Minor: 1}, "5.10": {Major: 5, Minor: 10}} {
		if r, err := parseRelease(s); err != nil || r != want {
			t.Errorf("%s: %v and %v", s, r, err)
		}
	}
	if _, err := parseRelease("plan9"); err == nil {
		t.Error("a release without numbers was accepted")
	}
}

func TestDecodeVIPRoute(t *testing.T) {
	if a, ok, err := decodeVIPRoute(vipRouteMessage); !ok || err != nil || a != netip.MustParseAddr("10.96.0.20") {
		t.Errorf("got %v, %v and %v", a, ok, err)
	}
	for what, at := range map[string]struct {
		offset int
		value  byte
	}{
		"a network":        {1, 24},
		"the main table":   {4, unix.RT_TABLE_MAIN},
		"the kernel's":     {5, unix.RTPROT_KERNEL},
		"a unicast route":  {7, unix.RTN_UNICAST},
		"another device's": {len(vipRouteMessage) - 4, 2},
	} {
		p := slices.Clone(vipRouteMessage)
		p[at.offset] = at.value
		if a, ok, err := decodeVIPRoute(p); ok || err != nil {
			t.Errorf("%s: %v, %v and %v", what, a, ok, err)
		}
	}
}

func TestDecodeProxy(t *testing.T) {
	want := proxy{key: addrKey{netip.MustParseAddr("fd00:96::20"), 3}, ours: true}
	if got, ok, err := decodeProxy(proxyMessage); !ok || err != nil || got != want {
		t.Errorf("got %+v, %v and %v", got, ok, err)
	}
	want.ours = false
	if got, ok, err := decodeProxy(proxyMessage[:len(proxyMessage)-8]); !ok || err != nil || got != want {
		t.Errorf("without a protocol: %+v, %v and %v", got, ok, err)
	}
	neighbor := slices.Clone(proxyMessage)
	neighbor[10] = 0
	if got, ok, err := decodeProxy(neighbor); ok || err != nil {
		t.Errorf("a neighbour: %+v, %v and %v", got, ok, err)
	}
}

// FuzzDecode decodes any bytes as each kind of message: no panic, no loop, and only valid values.
func FuzzDecode(f *testing.F) {
	for _, p := range [][]byte{linkMessage, addr4Message, peerMessage, addr6Message, routeMessage, multipathMessage, viaMessage, vipRouteMessage, announcementMessage, proxyMessage} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		decodeLink(p)
		if x, ok, err := decodeAddr(p); ok && (err != nil || !x.prefix.IsValid()) {
			t.Fatalf("address %v with error %v", x, err)
		}
		if a, ok, err := decodeVIPRoute(p); ok && (err != nil || !a.IsValid()) {
			t.Fatalf("VIP's route %v with error %v", a, err)
		}
		if o, ok, err := decodeAnnouncement(p); ok && (err != nil || !o.Addr.IsValid()) {
			t.Fatalf("announcement %v with error %v", o, err)
		}
		if x, ok, err := decodeProxy(p); ok && (err != nil || !x.key.addr.Is6()) {
			t.Fatalf("proxy neighbour %v with error %v", x, err)
		}
		r, ok, err := decodeRoute(p)
		if ok && err != nil {
			t.Fatalf("route %v with error %v", r, err)
		}
		for _, g := range r.gateways {
			if !g.IsValid() {
				t.Fatalf("gateways %v", r.gateways)
			}
		}
	})
}
