package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// match reads the value of an option and returns its condition on a packet.
func (p *parser) match(option string) (match, error) {
	switch p.module + " " + option {
	case "set --match-set":
		return p.inSet(p.next(), p.next())
	case "addrtype --src-type", "addrtype --dst-type":
		return addrType(option == "--src-type", p.next())
	case "mark --mark":
		return marked(p.next())
	case "conntrack --ctstate":
		return inState(p.next())
	case "physdev --physdev-is-in":
		return fromBridgePort, nil
	case "icmp --icmp-type":
		return echoRequest(p.next(), "8")
	case "icmp6 --icmpv6-type":
		return echoRequest(p.next(), "128")
	case "ipvs --vproto", "ipvs --vaddr", "ipvs --vport":
		return balancedFor(option, p.next())
	case "tcp --dport", "udp --dport", "sctp --dport":
		return toPort(p.module, p.next())
	}
	if p.module == "statistic" || p.module == "recent" || p.module == "bpf" {
		if m, err := p.chooses(option); m != nil || err != nil || ignored[p.module+" "+option] > 0 {
			return m, err
		}
	}
	switch option {
	case "-s", "-d":
		return inPrefix(option == "-s", p.next())
	case "-i":
		return cameInBy(p.next())
	case "-p":
		return ofProtocol(p.next(), p.family)
	}
	return nil, fmt.Errorf("option %q is not understood", option)
}

func inPrefix(source bool, text string) (match, error) {
	if !strings.Contains(text, "/") {
		return nil, fmt.Errorf("%q: want a prefix", text)
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return nil, err
	}
	return func(_ *tracer, f *flight) (bool, string) {
		a, which := f.end(source)
		return prefix.Contains(a.Addr()), fmt.Sprintf("the %s is %s", which, a.Addr())
	}, nil
}

// end is one end of the packet, and its name.
func (f *flight) end(source bool) (netip.AddrPort, string) {
	if source {
		return f.Src, "source"
	}
	return f.Dst, "destination"
}

// cameInBy compares the device, or with + the start of its name. The node's own packets
// came in by no device.
func cameInBy(name string) (match, error) {
	if name == "" {
		return nil, errors.New("-i without a device")
	}
	prefix, isPrefix := strings.CutSuffix(name, "+")
	return func(_ *tracer, f *flight) (bool, string) {
		if f.In == "" {
			return false, "it came in by no device"
		}
		return f.In == name || isPrefix && strings.HasPrefix(f.In, prefix), "it came in by " + f.In
	}, nil
}

func ofProtocol(name string, family kernel.Family) (match, error) {
	echo := name == "icmp" && family == kernel.IPv4 || name == "ipv6-icmp" && family == kernel.IPv6
	proto := kernel.Proto(0)
	if !echo {
		var err error
		if proto, err = kernel.ParseProto(name); err != nil {
			return nil, err
		}
	}
	return func(_ *tracer, f *flight) (bool, string) {
		if f.Echo {
			return echo, "it is a ping"
		}
		return f.Proto == proto, "it is " + f.Proto.String()
	}, nil
}

func echoRequest(text, number string) (match, error) {
	if text != number {
		return nil, fmt.Errorf("ICMP type %q is not understood", text)
	}
	return func(_ *tracer, f *flight) (bool, string) {
		if f.Echo {
			return true, "an echo request"
		}
		return false, "not an echo request"
	}, nil
}

func addrType(source bool, kind string) (match, error) {
	if kind != "LOCAL" {
		return nil, fmt.Errorf("address type %q is not understood", kind)
	}
	return func(t *tracer, f *flight) (bool, string) {
		a, which := f.end(source)
		if t.local(a.Addr()) {
			return true, fmt.Sprintf("the %s %s is the node's own", which, a.Addr())
		}
		return false, fmt.Sprintf("the %s %s is not the node's own", which, a.Addr())
	}, nil
}

func marked(text string) (match, error) {
	value, mask, err := markAndMask(text)
	return func(_ *tracer, f *flight) (bool, string) {
		return f.mark&mask == value, fmt.Sprintf("its mark is %#x", f.mark)
	}, err
}

// ctStates are the states of connection tracking. A packet is also in DNAT if a rule of nat changed its destination.
var ctStates = []string{"NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED", "DNAT"}

func inState(text string) (match, error) {
	states := strings.Split(text, ",")
	for _, s := range states {
		if !slices.Contains(ctStates, s) {
			return nil, fmt.Errorf("connection state %q is not understood", s)
		}
	}
	return func(t *tracer, f *flight) (bool, string) {
		state := t.ctState(f)
		if f.translated.Proto != 0 && slices.Contains(states, "DNAT") {
			return true, "its destination was " + f.translated.AddrPort().String()
		}
		return slices.Contains(states, state), "it is " + state
	}, nil
}

// ctState returns the state of a packet. Where real servers answer past the node,
// connection tracking sees one direction: later packets of TCP and SCTP are INVALID, and
// those of UDP stay NEW (Linux 6.1, nf_conntrack_tcp_packet).
func (t *tracer) ctState(f *flight) string {
	switch {
	case f.State != "":
		return f.State
	case !f.Established:
		return "NEW"
	case !t.oneSided(f):
		return "ESTABLISHED"
	case f.Proto == kernel.UDP:
		return "NEW"
	}
	return "INVALID"
}

// oneSided reports whether a packet goes to a virtual server that does not masquerade.
func (t *tracer) oneSided(f *flight) bool {
	k, ok := f.virtual, f.virtual.Proto != 0
	if !ok {
		k, ok = t.virtual(f)
	}
	return ok && slices.ContainsFunc(t.state.Reals.Of(k), func(r kernel.Real) bool {
		return r.Forward != kernel.Masquerade
	})
}

// fromBridgePort is physdev's --physdev-is-in. Without br_netfilter it never matches.
func fromBridgePort(t *tracer, f *flight) (bool, string) {
	switch {
	case f.BridgePort == "":
		return false, "it came in by no bridge port"
	case !t.node.BrNetfilter:
		return false, "bridges do not tell (no br_netfilter)"
	}
	return true, "it came in by bridge port " + f.BridgePort
}

// balancedFor compares the virtual server that balanced the packet. A packet that was
// not balanced never matches.
func balancedFor(option, text string) (match, error) {
	var of func(kernel.VirtualKey) bool
	switch option {
	case "--vproto":
		n, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", option, text, err)
		}
		of = func(k kernel.VirtualKey) bool { return k.Proto == kernel.Proto(n) }
	case "--vaddr":
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", option, err)
		}
		of = func(k kernel.VirtualKey) bool { return k.Addr == a }
	case "--vport":
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", option, text, err)
		}
		of = func(k kernel.VirtualKey) bool { return k.Port == uint16(n) }
	}
	return func(_ *tracer, f *flight) (bool, string) {
		if f.virtual.Proto == 0 {
			return false, "no virtual server balanced it"
		}
		return of(f.virtual), "balanced by " + f.virtual.String()
	}, nil
}
