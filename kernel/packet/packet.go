package packet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Packet is the first packet of a connection, or with Established a later one. It comes
// to the node, or a process on the node sends it.
type Packet struct {
	// Proto is 0 for a ping. The first packet of TCP or SCTP opens the connection: SYN,
	// INIT.
	Proto kernel.Proto
	// Src may be zero for a packet of the node itself: then the kernel chooses the
	// address.
	Src, Dst netip.AddrPort
	// In is the device that it comes in by, the bridge if there is one; "" if the node
	// sends it.
	In string
	// BridgePort is the port of bridge In; "" if In is no bridge.
	BridgePort  string
	Established bool
	Echo        bool // an ICMP echo request, which has no ports
	// State is what connection tracking says of it if that is neither NEW nor ESTABLISHED:
	// RELATED, INVALID or UNTRACKED.
	State string
	// Mark is the firewall mark that rules of others give it before ours see it.
	Mark uint32
}

// otherStates are the values of Packet.State.
var otherStates = []string{"RELATED", "INVALID", "UNTRACKED"}

// anyPort is the source port of a packet if it does not matter.
const anyPort = 40000

const grammar = `want "tcp|udp|sctp|ping SOURCE -> DESTINATION [in DEVICE [port DEVICE]] [mark NUMBER] [established] ` +
	`[related|invalid|untracked]", with SOURCE "node" or an address`

// ParsePacket reads a packet in this form:
//
//	tcp 192.0.2.9 -> 10.96.0.20:80 in eth0
//	udp 10.2.1.10:5353 -> 10.96.0.10:53 in br0 port veth1 established
//	tcp 192.0.2.9 -> 198.51.100.1:5060 in eth0 mark 7
//	tcp 192.0.2.9 -> 10.96.0.20:80 in eth0 untracked
//	ping 2001:db8::9 -> fd00:96::20 in eth0
//	tcp node -> 10.96.0.20:80
//	tcp 127.0.0.1 -> 10.96.0.20:80
//
// Without a device the node sends it. With "node" the kernel chooses the source address.
func ParsePacket(text string) (Packet, error) {
	p, err := parsePacket(strings.Fields(text))
	if err != nil {
		return Packet{}, fmt.Errorf("packet %q: %w", text, err)
	}
	return p, nil
}

func parsePacket(words []string) (Packet, error) {
	var p Packet
	if len(words) < 4 || words[2] != "->" {
		return p, errors.New(grammar)
	}
	var err error
	if p.Echo = words[0] == "ping"; !p.Echo {
		if p.Proto, err = kernel.ParseProto(words[0]); err != nil {
			return p, err
		}
	}
	if words[1] != "node" {
		if p.Src, err = parseEnd(words[1], p.Echo, anyPort); err != nil {
			return p, fmt.Errorf("source: %w", err)
		}
	}
	if p.Dst, err = parseEnd(words[3], p.Echo, 0); err != nil {
		return p, fmt.Errorf("destination: %w", err)
	}
	for rest := words[4:]; len(rest) > 0; {
		switch {
		case rest[0] == "established":
			p.Established, rest = true, rest[1:]
		case slices.Contains(otherStates, strings.ToUpper(rest[0])):
			p.State, rest = strings.ToUpper(rest[0]), rest[1:]
		case rest[0] == "mark" && len(rest) > 1:
			n, err := strconv.ParseUint(rest[1], 0, 32)
			if err != nil {
				return p, fmt.Errorf("mark %q: want a number", rest[1])
			}
			p.Mark, rest = uint32(n), rest[2:]
		case rest[0] == "in" && len(rest) > 1:
			p.In, rest = rest[1], rest[2:]
		case rest[0] == "port" && len(rest) > 1 && p.In != "":
			p.BridgePort, rest = rest[1], rest[2:]
		default:
			return p, errors.New(grammar)
		}
	}
	return p, nil
}

// parseEnd reads one end of a packet. That of a ping is an address. Others may leave out
// a port that has a default.
func parseEnd(s string, echo bool, port uint16) (netip.AddrPort, error) {
	if !echo && port == 0 {
		return netip.ParseAddrPort(s)
	}
	a, err := netip.ParseAddr(s)
	switch {
	case echo:
		return netip.AddrPortFrom(a, 0), err
	case err == nil:
		return netip.AddrPortFrom(a, port), nil
	}
	return netip.ParseAddrPort(s)
}

// String is the form that ParsePacket reads.
func (p Packet) String() string {
	var b strings.Builder
	end := func(a netip.AddrPort) {
		switch {
		case !a.IsValid():
			b.WriteString("node")
		case p.Echo:
			b.WriteString(a.Addr().String())
		default:
			b.WriteString(a.String())
		}
	}
	if p.Echo {
		b.WriteString("ping ")
	} else {
		b.WriteString(p.Proto.String() + " ")
	}
	end(p.Src)
	b.WriteString(" -> ")
	end(p.Dst)
	if p.In != "" {
		b.WriteString(" in " + p.In)
	}
	if p.BridgePort != "" {
		b.WriteString(" port " + p.BridgePort)
	}
	if p.Mark != 0 {
		fmt.Fprintf(&b, " mark %d", p.Mark)
	}
	if p.Established {
		b.WriteString(" established")
	}
	if p.State != "" {
		b.WriteString(" " + strings.ToLower(p.State))
	}
	return b.String()
}

// check refuses packets that cannot exist.
func (p Packet) check() error {
	switch {
	case !p.Dst.Addr().IsValid():
		return errors.New("no destination")
	case p.In != "" && !p.Src.Addr().IsValid():
		return errors.New("it comes in by a device and has no source")
	case p.Src.Addr().IsValid() && p.Src.Addr().Is4() != p.Dst.Addr().Is4():
		return errors.New("its ends are of two families")
	case p.Echo != (p.Proto == 0):
		return errors.New("a ping has no protocol, anything else needs one")
	case p.BridgePort != "" && p.In == "":
		return errors.New("a bridge port without its bridge")
	case p.State != "" && !slices.Contains(otherStates, p.State):
		return fmt.Errorf("connection tracking has no state %q", p.State)
	}
	return nil
}
