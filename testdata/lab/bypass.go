package lab

import (
	"fmt"
	"net/netip"
	"strconv"
)

// Bypass joins the client with each backend past the node, and makes the backends
// reply there, as servers do that a balancer forwards to without masquerading:
//
//	client 10.9.N.1 ---- 10.9.N.10 podN (N = 1 to 3)
func (l *Lab) Bypass() error {
	// The client gets replies by another link than it asks by.
	if err := l.Client.looseSources(); err != nil {
		return err
	}
	for i, b := range l.Backends {
		link, n4, n6 := fmt.Sprintf("side%d", i+1), fmt.Sprintf("10.9.%d", i+1), fmt.Sprintf("fd00:9:%d:", i+1)
		if err := b.looseSources(); err != nil {
			return err
		}
		err := l.Client.IP(
			fmt.Sprintf("link add %s type veth peer name side netns %s", link, b.path()),
			fmt.Sprintf("addr add %s.1/24 dev %s", n4, link),
			fmt.Sprintf("addr add %s:1/64 dev %s nodad", n6, link),
			fmt.Sprintf("link set %s up", link),
		)
		if err != nil {
			return err
		}
		err = b.IP(
			fmt.Sprintf("addr add %s.10/24 dev side", n4),
			fmt.Sprintf("addr add %s:10/64 dev side nodad", n6),
			"link set side up",
			fmt.Sprintf("route add %s via %s.1", l.Client.V4, n4),
			fmt.Sprintf("route add %s via %s:1", l.Client.V6, n6),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// looseSources accepts packets by links that their source is not routed to.
func (h *Host) looseSources() error {
	_, err := h.Run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
	return err
}

// Own gives a backend a VIP, as a server has it that packets reach unchanged: it answers
// no ARP for it.
func (b *Backend) Own(vips ...netip.Addr) error {
	if _, err := b.Run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2"); err != nil {
		return err
	}
	for _, a := range vips {
		line := fmt.Sprintf("addr add %s/%d dev lo", a, a.BitLen())
		if a.Is6() {
			line += " nodad"
		}
		if err := b.IP(line); err != nil {
			return err
		}
	}
	return nil
}

// Unwrap makes a backend take IP in IP, and IP in GUE on a port. The kernel has the modules ipip, ip6_tunnel and fou.
func (b *Backend) Unwrap(port int) error {
	if err := b.IP("link set tunl0 up", "link set ip6tnl0 up"); err != nil {
		return err
	}
	for _, family := range []string{"-4", "-6"} {
		if _, err := b.Run("ip", family, "fou", "add", "port", strconv.Itoa(port), "gue"); err != nil {
			return err
		}
	}
	// A device has its own value, and the larger of two counts.
	_, err := b.Run("sysctl", "-qw", "net.ipv4.conf.tunl0.rp_filter=0", "net.ipv4.conf.eth0.rp_filter=0")
	return err
}
