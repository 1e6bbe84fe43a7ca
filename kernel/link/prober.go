package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Each address is asked for twice, in case a packet is lost. A Linux host answers ARP at once, and
// ND for its own addresses too. For an address that it proxies, as svcproxy does, it answers ND
// after up to 0.8 s (proxy_delay).
const (
	probes     = 2
	probeGap   = 150 * time.Millisecond
	probeTime4 = 300 * time.Millisecond
	probeTime6 = 1000 * time.Millisecond
)

// An address is announced more than once, because no host confirms an announcement.
const (
	announcements = 3
	announceGap   = time.Second
)

// At most burst packets are sent in each burstGap: a thousand a second.
const (
	burst    = 10
	burstGap = 10 * time.Millisecond
)

// Prober asks other hosts about addresses, and announces addresses to them, in the network
// namespace of the calling thread. It needs CAP_NET_RAW.
type Prober struct{}

// Probe asks the hosts on the links of claims for their addresses, all of one family. It returns
// the claims that some host answered for. It takes 0.3 s for IPv4 and 1 s for IPv6. No host answers
// on a link that is down or has no neighbours.
func (Prober) Probe(ctx context.Context, claims []kernel.Claim) ([]kernel.Taken, error) {
	n, err := gather(claims)
	if err != nil {
		return nil, fmt.Errorf("asking other hosts for VIPs: %w", err)
	}
	defer n.close()
	limit := probeTime4
	if n.family == kernel.IPv6 {
		limit = probeTime6
	}
	end := time.Now().Add(limit)
	for i := range probes {
		if i > 0 && !n.hear(ctx, end.Add(-limit).Add(time.Duration(i)*probeGap)) {
			break
		}
		n.send(ctx, false)
	}
	n.hear(ctx, end)
	return n.answers(), ctx.Err()
}

// Announce tells the hosts on the links of claims that these addresses, all of one family, are at
// this node. It does so three times within two seconds. Switches and hosts then drop an older place
// from their caches.
func (Prober) Announce(ctx context.Context, claims []kernel.Claim) error {
	n, err := gather(claims)
	if err != nil {
		return fmt.Errorf("announcing VIPs: %w", err)
	}
	defer n.close()
	for i := range announcements {
		if i > 0 && !pause(ctx, announceGap) {
			break
		}
		n.send(ctx, true)
	}
	return ctx.Err()
}

// neighborhood is a packet socket and the claims of one family on links that have neighbours.
type neighborhood struct {
	fd     int
	family kernel.Family
	asked  []*asked
	own    []net.HardwareAddr // of all links of this node
}

// asked is a claim with its link.
type asked struct {
	kernel.Claim
	link  net.Interface
	taken net.HardwareAddr // link-layer address of the host that answered, or nil
}

func gather(claims []kernel.Claim) (*neighborhood, error) {
	n := &neighborhood{fd: -1, family: kernel.IPv4}
	if len(claims) > 0 {
		n.family = kernel.FamilyOf(claims[0].Addr)
	}
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	const has = net.FlagUp | net.FlagBroadcast
	for _, l := range links {
		if len(l.HardwareAddr) == 6 {
			n.own = append(n.own, l.HardwareAddr)
		}
		for _, c := range claims {
			if c.Link == l.Name && l.Flags&has == has && len(l.HardwareAddr) == 6 {
				n.asked = append(n.asked, &asked{Claim: c, link: l})
			}
		}
	}
	kernel.SortFunc(n.asked, func(a, b *asked) int { return a.Compare(b.Claim) })
	if n.fd, err = n.socket(); err != nil {
		return nil, err
	}
	if n.family == kernel.IPv6 {
		n.join()
	}
	return n, nil
}

// join has the links take the frames in which other hosts ask for the same addresses: for IPv6 these are
// multicast, and two nodes may ask at the same time. It ignores errors: a link that takes all frames needs no
// join.
func (n *neighborhood) join() {
	for _, a := range n.asked {
		group := &unix.PacketMreq{Ifindex: int32(a.link.Index), Type: unix.PACKET_MR_MULTICAST, Alen: 6}
		copy(group.Address[:], multicastMAC(solicited(a.Addr)))
		_ = unix.SetsockoptPacketMreq(n.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, group)
	}
}

// socket binds to a protocol only after the filter is in place, so it receives nothing before.
func (n *neighborhood) socket() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("packet socket: %w", err)
	}
	if n.family == kernel.IPv6 {
		f := onlyND()
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: n.protocol()})
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("packet socket: %w", err)
	}
	return fd, nil
}

// protocol returns the EtherType in network byte order.
func (n *neighborhood) protocol() uint16 {
	if n.family == kernel.IPv6 {
		return uint16(nl.Swap16(unix.ETH_P_IPV6))
	}
	return uint16(nl.Swap16(unix.ETH_P_ARP))
}

func (n *neighborhood) close() { unix.Close(n.fd) }

// send sends a packet for each claim that no host has answered for. It ignores errors: a packet
// that cannot be sent is like one that is lost.
func (n *neighborhood) send(ctx context.Context, announce bool) {
	sent := 0
	for _, a := range n.asked {
		if a.taken != nil {
			continue
		}
		if sent++; sent%burst == 0 && !pause(ctx, burstGap) {
			return
		}
		p, to := n.packet(a, announce)
		ll := &unix.SockaddrLinklayer{Protocol: n.protocol(), Ifindex: a.link.Index, Halen: uint8(len(to))}
		copy(ll.Addr[:], to)
		_ = unix.Sendto(n.fd, p, 0, ll)
	}
}

func (n *neighborhood) packet(a *asked, announce bool) (p []byte, to net.HardwareAddr) {
	switch {
	case n.family == kernel.IPv4:
		return arp(a.Addr, a.link.HardwareAddr, announce), everybody
	case announce:
		return advertise(a.Addr, a.link.HardwareAddr), multicastMAC(allNodes)
	}
	return solicit(a.Addr), multicastMAC(solicited(a.Addr))
}

// hear receives answers until a time. It returns false if it ended early, because all claims are
// taken or ctx ended.
func (n *neighborhood) hear(ctx context.Context, until time.Time) bool {
	buf := make([]byte, 2048)
	for ctx.Err() == nil && slices.ContainsFunc(n.asked, func(a *asked) bool { return a.taken == nil }) {
		left := time.Until(until)
		if left <= 0 {
			return true
		}
		// Wait in short steps, to notice the end of ctx.
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(n.fd), Events: unix.POLLIN}}, int(min(left, probeGap).Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		for {
			size, from, err := unix.Recvfrom(n.fd, buf, unix.MSG_DONTWAIT)
			if err != nil {
				break
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok {
				n.take(buf[:size], ll)
			}
		}
	}
	return false
}

// take records what a packet says about the claims on its link.
func (n *neighborhood) take(p []byte, from *unix.SockaddrLinklayer) {
	var h sighting
	var ok bool
	if n.family == kernel.IPv4 {
		h, ok = readARP(p)
	} else {
		h, ok = readND(p, net.HardwareAddr(bytes.Clone(from.Addr[:6])))
	}
	if !ok || slices.ContainsFunc(n.own, func(m net.HardwareAddr) bool { return bytes.Equal(m, h.mac) }) {
		return
	}
	i, _ := slices.BinarySearchFunc(n.asked, h.addr, func(a *asked, addr netip.Addr) int { return a.Addr.Compare(addr) })
	for ; i < len(n.asked) && n.asked[i].Addr == h.addr; i++ {
		a := n.asked[i]
		// Of two hosts that ask at the same time, the lower one gets the address. With RFC 5227
		// neither would.
		if a.link.Index == from.Ifindex && (!h.probe || bytes.Compare(h.mac, a.link.HardwareAddr) < 0) {
			a.taken = h.mac
		}
	}
}

func (n *neighborhood) answers() []kernel.Taken {
	var list []kernel.Taken
	for _, a := range n.asked {
		if a.taken != nil {
			list = append(list, kernel.Taken{Claim: a.Claim, MAC: a.taken.String()})
		}
	}
	return list
}

// pause waits, and returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
