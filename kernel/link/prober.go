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
)

// How an address is asked for: twice, in case a packet is lost. A Linux host
// answers ARP at once, and ND for an address of its own; for one that it answers
// in another's place, as svcproxy does, after up to 0.8 s (proxy_delay).
const (
	probes     = 2
	probeGap   = 150 * time.Millisecond
	probeTime4 = 300 * time.Millisecond
	probeTime6 = 1000 * time.Millisecond
)

// How an address is announced: more than once, since nobody says that it was heard.
const (
	announcements = 3
	announceGap   = time.Second
)

// At most burst packets are sent in burstGap, a thousand a second.
const (
	burst    = 10
	burstGap = 10 * time.Millisecond
)

// MaxProbed is how many claims one Probe should be given: so many are asked for,
// at the rate above, in the time that one takes.
const MaxProbed = 100

// Prober asks other hosts about addresses, and tells them, in the network
// namespace of the calling thread. It needs CAP_NET_RAW.
type Prober struct{}

// Probe asks on their links whether other hosts have the addresses of claims, which
// are of one family, and returns those that some host answers for. It takes 0.3 s
// for IPv4 and 1 s for IPv6. A link that is down, or has no neighbours to ask, has
// nobody who answers.
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

// Announce tells the links of claims, of one family, that their addresses are at
// this node, three times within two seconds: switches and hosts that remember
// another place forget it.
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

// neighborhood is a packet socket, and the claims of one family on the links that
// have neighbours.
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
	taken net.HardwareAddr // by whom; nil if nobody answered
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
	slices.SortFunc(n.asked, func(a, b *asked) int { return a.Compare(b.Claim) })
	if n.fd, err = n.socket(); err != nil {
		return nil, err
	}
	return n, nil
}

// socket hears nothing before its filter is in place: only then it is bound to a
// protocol.
func (n *neighborhood) socket() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("packet socket: %w", err)
	}
	if n.family == kernel.IPv6 {
		f := onlyND()
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
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

// protocol is the EtherType in network byte order.
func (n *neighborhood) protocol() uint16 {
	if n.family == kernel.IPv6 {
		return uint16(swap16(unix.ETH_P_IPV6))
	}
	return uint16(swap16(unix.ETH_P_ARP))
}

func (n *neighborhood) close() { unix.Close(n.fd) }

// send sends a packet for each claim that nobody has answered for. One that cannot
// be sent is as one that is lost.
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

// hear takes answers until a time, and says whether it came to that: not if all
// claims are taken, or ctx ended.
func (n *neighborhood) hear(ctx context.Context, until time.Time) bool {
	buf := make([]byte, 2048)
	for ctx.Err() == nil && slices.ContainsFunc(n.asked, func(a *asked) bool { return a.taken == nil }) {
		left := time.Until(until)
		if left <= 0 {
			return true
		}
		// In pieces, so that ctx is heeded.
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

// take notes what a packet says of the claims on its link.
func (n *neighborhood) take(p []byte, from *unix.SockaddrLinklayer) {
	var h sighting
	var ok bool
	if n.family == kernel.IPv4 {
		h, ok = hearARP(p)
	} else {
		h, ok = hearND(p, net.HardwareAddr(bytes.Clone(from.Addr[:6])))
	}
	if !ok || slices.ContainsFunc(n.own, func(m net.HardwareAddr) bool { return bytes.Equal(m, h.mac) }) {
		return
	}
	i, _ := slices.BinarySearchFunc(n.asked, h.addr, func(a *asked, addr netip.Addr) int { return a.Addr.Compare(addr) })
	for ; i < len(n.asked) && n.asked[i].Addr == h.addr; i++ {
		a := n.asked[i]
		// Of two that ask for it at once the lower one gets it: RFC 5227 would
		// have neither.
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

// pause says whether ctx has not ended meanwhile.
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
