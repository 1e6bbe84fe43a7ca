package link

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

var (
	ownMAC   = net.HardwareAddr{2, 0, 0, 0, 0, 5}
	otherMAC = net.HardwareAddr{2, 0, 0, 0, 0, 9}

	// Answers of Linux 6.1 to a probe, from tcpdump.
	arpReply = []byte{0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 9, 192, 0, 2, 80, 2, 0, 0, 0, 0, 5, 0, 0, 0, 0}
)

func TestARP(t *testing.T) {
	vip := netip.MustParseAddr("192.0.2.80")
	probe := []byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 80}
	if got := arp(vip, ownMAC, false); !bytes.Equal(got, probe) {
		t.Errorf("a probe is % x", got)
	}
	for _, test := range []struct {
		what string
		p    []byte
		want sighting
	}{
		{"a reply", arpReply, sighting{vip, otherMAC, false}},
		{"an announcement", arp(vip, otherMAC, true), sighting{vip, otherMAC, false}},
		{"a probe", arp(vip, otherMAC, false), sighting{vip, otherMAC, true}},
	} {
		got, ok := readARP(test.p)
		if !ok || got.addr != test.want.addr || got.mac.String() != test.want.mac.String() || got.probe != test.want.probe {
			t.Errorf("%s: %+v, %v", test.what, got, ok)
		}
	}
	if _, ok := readARP(arpReply[:27]); ok {
		t.Error("a cut packet was read")
	}
}

func TestND(t *testing.T) {
	vip := netip.MustParseAddr("2001:db8::12:3480")
	if got := multicastMAC(solicited(vip)).String(); got != "33:33:ff:12:34:80" {
		t.Errorf("asked at %s", got)
	}
	for _, test := range []struct {
		what string
		p    []byte
		want sighting
	}{
		{"an advertisement", advertise(vip, otherMAC), sighting{vip, otherMAC, false}},
		{"one without its option", icmp6(vip, allNodes, advertisement, 0, vip, nil), sighting{vip, ownMAC, false}},
		{"a probe", solicit(vip), sighting{vip, ownMAC, true}},
	} {
		got, ok := readND(test.p, ownMAC)
		if !ok || got.addr != vip || got.mac.String() != test.want.mac.String() || got.probe != test.want.probe {
			t.Errorf("%s: %+v, %v", test.what, got, ok)
		}
		for i := range test.p {
			bad := bytes.Clone(test.p)
			bad[i] ^= 0x10
			// The checksum does not cover the traffic class, the flow label and the hop limit.
			if _, ok := readND(bad, ownMAC); ok && i > 3 {
				t.Errorf("%s: changed at %d it was read", test.what, i)
			}
		}
	}
	if _, ok := readND(icmp6(netip.MustParseAddr("2001:db8::1"), solicited(vip), solicitation, 0, vip, ownMAC), ownMAC); ok {
		t.Error("who only looks for a neighbour was taken for one that wants the address")
	}
}

// If two hosts ask for an address at the same time, the one with the lower MAC address gets it. A
// host that has an address keeps it. Packets of this node and those on other links do not count.
func TestTake(t *testing.T) {
	claim := kernel.Claim{Addr: netip.MustParseAddr("192.0.2.80"), Link: "eth0"}
	for _, test := range []struct {
		what  string
		p     []byte
		link  int
		taken bool
	}{
		{"a host that has it", arpReply, 3, true},
		{"on another link", arpReply, 4, false},
		{"our own", arp(claim.Addr, net.HardwareAddr{2, 0, 0, 0, 0, 8}, true), 3, false},
		{"another address", arp(netip.MustParseAddr("192.0.2.81"), otherMAC, true), 3, false},
		{"a higher one asks", arp(claim.Addr, otherMAC, false), 3, false},
		{"a lower one asks", arp(claim.Addr, net.HardwareAddr{2, 0, 0, 0, 0, 1}, false), 3, true},
	} {
		n := &neighborhood{
			family: kernel.IPv4, own: []net.HardwareAddr{ownMAC, {2, 0, 0, 0, 0, 8}},
			asked: []*asked{{Claim: claim, link: net.Interface{Index: 3, Name: "eth0", HardwareAddr: ownMAC}}},
		}
		n.take(test.p, &unix.SockaddrLinklayer{Ifindex: test.link})
		if got := len(n.answers()) == 1; got != test.taken {
			t.Errorf("%s: taken %v", test.what, got)
		}
	}
}

// An address is free if no host answers, or if the link does not exist.
func TestProbeOfAFreeAddress(t *testing.T) {
	kerneltest.NewNamespace(t)
	kerneltest.Need(t, kerneltest.Tool("ip"))
	kerneltest.Run(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
	kerneltest.Run(t, "ip", "link", "set", "eth0", "up")
	kerneltest.Run(t, "ip", "link", "set", "eth1", "up")
	for _, vip := range []string{"192.0.2.80", "2001:db8::80"} {
		a := netip.MustParseAddr(vip)
		taken, err := Prober{}.Probe(t.Context(), []kernel.Claim{{Addr: a, Link: "eth0"}, {Addr: a, Link: "gone"}})
		if err != nil || len(taken) != 0 {
			t.Errorf("%s: %v, %v", vip, taken, err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := (Prober{}).Probe(ended, []kernel.Claim{{Addr: a, Link: "eth0"}}); err == nil {
			t.Errorf("%s: it was asked for although nobody waits", vip)
		}
	}
}

// FuzzHear decodes any bytes: no panic, and only valid addresses.
func FuzzHear(f *testing.F) {
	f.Add(arpReply)
	f.Add(advertise(netip.MustParseAddr("2001:db8::80"), otherMAC))
	f.Add(solicit(netip.MustParseAddr("2001:db8::80")))
	f.Fuzz(func(t *testing.T, p []byte) {
		if s, ok := readARP(p); ok && (!s.addr.Is4() || len(s.mac) != 6) {
			t.Fatalf("%+v", s)
		}
		if s, ok := readND(p, ownMAC); ok && (!s.addr.Is6() || len(s.mac) != 6) {
			t.Fatalf("%+v", s)
		}
	})
}
