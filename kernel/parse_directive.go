package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// directive reads a line that no tool prints. f has the words behind "#: ".
func (p *parser) directive(f []string, line string) error {
	if len(f) == 0 {
		return nil
	}
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	var err error
	switch f[0] {
	case "iptables-legacy", "iptables-nft", "ip6tables-legacy", "ip6tables-nft", "iptables-ipset", "ip6tables-ipset",
		"iptables-native", "ip6tables-native":
		p.otherTool(f[0], arg(1) == "stuck")
	case "iptables":
		p.family, p.other = IPv4, nil
	case "ip6tables":
		p.family, p.other = IPv6, nil
	case "hold", "delete-unknown", "take-left", "exclude", "drain-timeout", "cut", "drain-virtuals", "drain-rules",
		"quiesced", "probe":
		err = p.o.Policy.directive(f)
	case "claim", "probed", "taken":
		err = p.claim(f)
	case "fresh":
		p.o.Fresh = true
	case "at-least", "over":
		err = p.keeps(f[0], strings.TrimPrefix(line, directive+"over "))
	case "names":
		p.o.Names = Names{Prefix: arg(1), Device: arg(2)}
	case "clock":
		p.now.Time, err = time.Parse(time.RFC3339Nano, arg(1))
	case "saved":
		err = p.saved(strings.TrimPrefix(line, directive+"saved "))
	case "owned", "remembers-left", "drain", "was-cut", "unremoved", "was-quiesced":
		err = p.remembered(f)
	case "relayed":
		p.o.Relayed = true
	case "in-ipvs":
		err = appendKey(&p.o.InIPVS, f[1:])
	case "made":
		err = p.recorded(f[1:], &p.o.Record.Made)
	case "digest":
		err = p.digest(f[1:])
	case "left":
		err = p.recorded(f[1:], &p.o.Record.Left)
	case "answered":
		var n Neighbor
		n, err = parseNeighbor([]string{"neigh", "add", "proxy", arg(1), arg(2), arg(3)})
		p.o.Answered = append(p.o.Answered, n)
	case "firewall":
		err = p.baseChain(f)
	case "hidden":
		p.o.Hidden = append(p.o.Hidden, arg(1)+" "+arg(2))
	case "unseen":
		p.o.Unseen = strings.Join(f[1:], " ")
	case "rule":
		err = p.foreignRule(f)
	case "bridge":
		p.o.Node.Bridges = append(p.o.Node.Bridges, Bridge{arg(1), slices.Contains(f, IPv4.Tool()),
			slices.Contains(f, IPv6.Tool())})
	default:
		err = p.o.Node.directive(f[0], arg(1), arg(3))
	}
	return err
}

func appendKey(to *[]VirtualKey, f []string) error {
	k, _, err := parseVirtualKey(f)
	*to = append(*to, k)
	return err
}

func (p *parser) digest(f []string) error {
	d, err := parseVirtualDigest(f)
	p.o.Record.Digests = append(p.o.Record.Digests, d)
	sortUnique(&p.o.Record.Digests, VirtualDigest.Compare)
	return err
}

// recorded reads: -A and a virtual server.
func (p *parser) recorded(f []string, to *[]Virtual) error {
	if len(f) == 0 {
		return fmt.Errorf("want a virtual server")
	}
	v, err := parseVirtual(f)
	if err != nil {
		return err
	}
	*to = append(*to, v)
	sortUnique(to, Virtual.Compare)
	return nil
}

// saved reads: NAME before "VALUE" ours "VALUE".
func (p *parser) saved(s string) error {
	name, s, _ := strings.Cut(s, " before ")
	before, err := strconv.QuotedPrefix(s)
	if err != nil {
		return fmt.Errorf("saved %s: value before: %w", name, err)
	}
	ours, ok := strings.CutPrefix(s[len(before):], " ours ")
	if !ok {
		return fmt.Errorf("saved %s: want ours behind the value before", name)
	}
	saved := Saved{Name: name}
	if saved.Before, err = strconv.Unquote(before); err != nil {
		return err
	}
	if saved.Ours, err = strconv.Unquote(ours); err != nil {
		return fmt.Errorf("saved %s: our value: %w", name, err)
	}
	p.o.Saved = append(p.o.Saved, saved)
	return nil
}

// directive reads what Policy.append writes.
func (p *Policy) directive(f []string) (err error) {
	switch f[0] {
	case "hold":
		p.Hold = true
	case "delete-unknown":
		p.DeleteUnknown = true
	case "take-left":
		p.TakeLeft = true
	case "drain-virtuals":
		p.DrainVirtuals = true
	case "drain-rules":
		p.DrainRules = true
	case "probe":
		p.Probe = true
	case "drain-timeout":
		return p.drainTimeout(f[1:])
	case "cut":
		var k RealKey
		k, _, err = parseRealKey(f[1:])
		p.Cut = append(p.Cut, k)
	case "quiesced":
		var k RealKey
		k, _, err = parseRealKey(f[1:])
		p.Quiesced = append(p.Quiesced, k)
	case "exclude":
		var c netip.Prefix
		c, err = netip.ParsePrefix(strings.Join(f[1:], " "))
		p.ExcludeCIDRs = append(p.ExcludeCIDRs, c)
	}
	return err
}

// drainTimeout reads: DURATION, or DURATION and a virtual server.
func (p *Policy) drainTimeout(f []string) error {
	if len(f) == 0 {
		return fmt.Errorf("drain-timeout: want a duration")
	}
	d, err := time.ParseDuration(f[0])
	if err != nil {
		return err
	}
	if len(f) == 1 {
		p.DrainTimeout = d
		return nil
	}
	k, _, err := parseVirtualKey(f[1:])
	p.Drains = append(p.Drains, VirtualDrain{Virtual: k, Timeout: d})
	return err
}

func (p *parser) drain(f []string) error {
	if len(f) == 0 {
		return fmt.Errorf("drain: want a time and a real server")
	}
	since, err := time.Parse(time.RFC3339Nano, f[0])
	if err != nil {
		return err
	}
	k, _, err := parseRealKey(f[1:])
	p.memory.Drains = append(p.memory.Drains, Drain{Real: k, Since: since})
	return err
}

func (n *Node) directive(name, value, link string) (err error) {
	switch name {
	case "node":
		n.Name = value
	case "zone":
		n.Zone = value
	case "address":
		var a netip.Prefix
		a, err = netip.ParsePrefix(value)
		n.Addrs = append(n.Addrs, NodeAddr{Prefix: a, Link: link})
	case "primary":
		var a netip.Addr
		if a, err = netip.ParseAddr(value); a.Is4() {
			n.Primary4 = a
		} else {
			n.Primary6 = a
		}
	case "gateway":
		var a netip.Addr
		a, err = netip.ParseAddr(value)
		n.Gateways = append(n.Gateways, a)
	case "advertised":
		n.Advertised = append(n.Advertised, value)
	case "br_netfilter":
		n.BrNetfilter = true
	case "mtu":
		n.MTU, err = strconv.Atoi(value)
	case "release":
		_, err = fmt.Sscanf(value, "%d.%d", &n.Release.Major, &n.Release.Minor)
	default:
		return fmt.Errorf("unknown directive %q", name)
	}
	return err
}
