package kernel

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// ParseObserved reads canonical text, of a State or an Observed, and what
// sysctl, ipset save, iptables-save and ipvsadm-save print. Comments and blank
// lines are skipped. An error names the line.
func ParseObserved(text string) (Observed, error) {
	p := parser{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return Observed{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if p.table != "" {
		return Observed{}, fmt.Errorf("line %d: table %s has no COMMIT", n, p.table)
	}
	o := p.o
	conns := make(map[RealKey]Conns, len(o.Conns))
	for i, c := range o.Conns {
		conns[o.Reals[i].Key] = c
	}
	o.Conns = nil
	o.Sort()
	if len(conns) > 0 {
		for _, r := range o.Reals {
			o.Conns = append(o.Conns, conns[r.Key])
		}
	}
	return o, nil
}

type parser struct {
	o      Observed
	family Family // of the iptables section
	table  string // we are inside, "" outside
}

func (p *parser) line(s string) error {
	switch {
	case strings.HasPrefix(s, directive):
		return p.directive(strings.Fields(strings.TrimPrefix(s, directive)), s)
	case s == "" || s[0] == '#':
		return nil
	case s[0] == '*':
		p.table = s[1:]
		return nil
	case s == "COMMIT":
		p.table = ""
		return nil
	case p.table != "":
		return p.rule(s)
	}
	f := strings.Fields(s)
	switch f[0] {
	case "create":
		return p.set(f)
	case "add":
		return p.entry(f)
	case "link":
		return p.link(f)
	case "addr":
		return p.addr(f)
	case "-A":
		return p.virtual(f)
	case "-a":
		return p.real(f)
	}
	if name, value, ok := strings.Cut(s, " = "); ok {
		p.o.Sysctls = append(p.o.Sysctls, Sysctl{Name: name, Value: value})
		return nil
	}
	return fmt.Errorf("%q: no tool prints this", s)
}

func (p *parser) rule(s string) error {
	if p.family == 0 {
		p.family = IPv4
	}
	if strings.HasPrefix(s, ":") {
		name, _, _ := strings.Cut(s[1:], " ")
		c := Chain{Family: p.family, Table: p.table, Name: name}
		if name == "" {
			return fmt.Errorf("%q: chain without a name", s)
		}
		if !c.BuiltIn() {
			p.chain(name)
		}
		return nil
	}
	rest, ok := strings.CutPrefix(s, "-A ")
	name, rule, _ := strings.Cut(rest, " ")
	if !ok || name == "" || rule == "" {
		return fmt.Errorf("%q: want :CHAIN, -A CHAIN RULE or COMMIT", s)
	}
	c := p.chain(name)
	if c.Rules != "" {
		c.Rules += "\n"
	}
	c.Rules += rule
	return nil
}

// chain finds or makes the chain of this name in the current section.
func (p *parser) chain(name string) *Chain {
	for i := range p.o.Chains {
		if c := &p.o.Chains[i]; c.Family == p.family && c.Table == p.table && c.Name == name {
			return c
		}
	}
	p.o.Chains = append(p.o.Chains, Chain{Family: p.family, Table: p.table, Name: name})
	return &p.o.Chains[len(p.o.Chains)-1]
}

func (p *parser) set(f []string) error {
	if len(f) < 3 {
		return fmt.Errorf("create: want a name and a type")
	}
	s := Set{Name: f[1], Type: SetType(f[2]), Family: IPv4}
	for i := 3; i+1 < len(f); i += 2 {
		switch f[i] {
		case "family":
			if f[i+1] == "inet6" {
				s.Family = IPv6
			}
		case "maxelem":
			n, err := strconv.ParseUint(f[i+1], 10, 32)
			if err != nil {
				return fmt.Errorf("maxelem %q: not a number", f[i+1])
			}
			s.MaxElem = uint32(n)
		}
	}
	if s.Type == BitmapPort {
		// A bitmap has no family of its own; its name tells whose it is.
		s.MaxElem = 0
		if strings.Contains(s.Name, "-6-") {
			s.Family = IPv6
		}
	}
	p.o.Sets = append(p.o.Sets, s)
	return nil
}

func (p *parser) entry(f []string) error {
	if len(f) < 3 {
		return fmt.Errorf("add: want a set and a member")
	}
	e, err := ParseMember(f[2])
	if err != nil {
		return err
	}
	e.Set = f[1]
	p.o.Entries = append(p.o.Entries, e)
	return nil
}

// ParseMember reads a set's member as ipset prints it.
func ParseMember(s string) (Entry, error) {
	var e Entry
	part := strings.Split(s, ",")
	if port, err := strconv.ParseUint(s, 10, 16); err == nil {
		return Entry{Port: uint16(port)}, nil
	}
	var err error
	if e.Addr, err = netip.ParseAddr(part[0]); err != nil || e.Addr.Zone() != "" {
		return Entry{}, fmt.Errorf("member %q: want an address first", s)
	}
	if len(part) == 1 {
		return e, nil
	}
	proto, port, _ := strings.Cut(part[1], ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Entry{}, fmt.Errorf("member %q: want protocol:port second", s)
	}
	e.Port = uint16(n)
	if e.Proto, err = ParseProto(proto); err != nil {
		return Entry{}, fmt.Errorf("member %q: %w", s, err)
	}
	switch len(part) {
	case 2:
		return e, nil
	case 3:
		e.Second, err = parsePrefix(part[2])
		if err != nil {
			return Entry{}, fmt.Errorf("member %q: %w", s, err)
		}
		return e, nil
	}
	return Entry{}, fmt.Errorf("member %q: want at most three parts", s)
}

// parsePrefix reads a prefix, or an address as its longest prefix.
func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q: want an address or a prefix", s)
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

func (p *parser) link(f []string) error {
	if len(f) != 5 || f[1] != "add" || f[3] != "type" {
		return fmt.Errorf("want: link add NAME type TYPE")
	}
	p.o.Links = append(p.o.Links, Link{Name: f[2], Type: f[4]})
	return nil
}

func (p *parser) addr(f []string) error {
	if len(f) != 5 || f[1] != "add" || f[3] != "dev" {
		return fmt.Errorf("want: addr add ADDRESS/LENGTH dev NAME")
	}
	a, err := netip.ParsePrefix(f[2])
	if err != nil || !a.IsSingleIP() {
		return fmt.Errorf("address %q: want the full length, /32 or /128", f[2])
	}
	p.o.Addrs = append(p.o.Addrs, Addr{Addr: a.Addr(), Link: f[4]})
	return nil
}

// parseVirtualKey reads "-t ADDRESS:PORT" at the start of f and gives the rest.
func parseVirtualKey(f []string) (VirtualKey, []string, error) {
	if len(f) < 2 {
		return VirtualKey{}, nil, fmt.Errorf("want -t, -u or --sctp-service and ADDRESS:PORT")
	}
	var k VirtualKey
	switch f[0] {
	case "-t":
		k.Proto = TCP
	case "-u":
		k.Proto = UDP
	case "--sctp-service":
		k.Proto = SCTP
	default:
		return k, nil, fmt.Errorf("%q: want -t, -u or --sctp-service", f[0])
	}
	var err error
	k.Addr, err = parseAddrPort(f[1])
	return k, f[2:], err
}

func parseAddrPort(s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err == nil && a.Addr().Zone() != "" {
		err = fmt.Errorf("%q: an address with a zone", s)
	}
	return a, err
}

func parseRealKey(f []string) (RealKey, []string, error) {
	v, f, err := parseVirtualKey(f)
	if err != nil {
		return RealKey{}, nil, err
	}
	if len(f) < 2 || f[0] != "-r" {
		return RealKey{}, nil, fmt.Errorf("real server of %s: want -r ADDRESS:PORT", v)
	}
	a, err := parseAddrPort(f[1])
	return RealKey{Virtual: v, Addr: a}, f[2:], err
}

func (p *parser) virtual(f []string) error {
	k, f, err := parseVirtualKey(f[1:])
	if err != nil {
		return err
	}
	v := Virtual{Key: k, Netmask: uint8(k.Family().Bits())}
	for ; len(f) > 0; f = f[1:] {
		if f[0] == "-o" {
			v.Flags |= FlagOnePacket
			continue
		}
		if len(f) < 2 {
			return fmt.Errorf("virtual server %s: %s has no value", k, f[0])
		}
		if err := v.option(f[0], f[1]); err != nil {
			return fmt.Errorf("virtual server %s: %w", k, err)
		}
		f = f[1:]
	}
	if v.Scheduler == "" {
		return fmt.Errorf("virtual server %s: want a scheduler, -s NAME", k)
	}
	p.o.Virtuals = append(p.o.Virtuals, v)
	return nil
}

// option sets one of ipvsadm's options that have a value.
func (v *Virtual) option(name, value string) error {
	switch name {
	case "-s":
		v.Scheduler = value
	case "-p":
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return fmt.Errorf("timeout %q: want seconds", value)
		}
		v.Flags |= FlagPersistent
		v.Timeout = uint32(n)
	case "-M":
		n, err := strconv.ParseUint(value, 10, 8)
		if err != nil || int(n) > v.Key.Family().Bits() {
			return fmt.Errorf("netmask %q: want a prefix length", value)
		}
		v.Netmask = uint8(n)
	case "-b":
		for flag := range strings.SplitSeq(value, ",") {
			n, err := strconv.Atoi(strings.TrimPrefix(flag, "flag-"))
			if err != nil || n < 1 || n > len(schedFlags) {
				return fmt.Errorf("scheduler flag %q: want flag-1 to flag-3", flag)
			}
			v.Flags |= schedFlags[n-1]
		}
	default:
		return fmt.Errorf("unknown option %q", name)
	}
	return nil
}

func (p *parser) real(f []string) error {
	k, f, err := parseRealKey(f[1:])
	if err != nil {
		return err
	}
	r := Real{Key: k, Weight: 1}
	var c Conns
	for len(f) > 0 && f[0] != "#" {
		n, err := r.option(f)
		if err != nil {
			return fmt.Errorf("real server %s: %w", k, err)
		}
		f = f[n:]
	}
	if len(f) == 7 {
		if _, err := fmt.Sscanf(strings.Join(f, " "), "# active %d inactive %d persist %d", &c.Active, &c.Inactive, &c.Persist); err != nil {
			return fmt.Errorf("real server %s: connections: %w", k, err)
		}
	}
	p.o.Reals = append(p.o.Reals, r)
	p.o.Conns = append(p.o.Conns, c)
	return nil
}

// option sets the option at the start of f and gives how many words it took.
func (r *Real) option(f []string) (int, error) {
	for forward, flag := range forwardFlags {
		if f[0] == flag {
			r.Forward = Forward(forward)
			return 1, nil
		}
	}
	if f[0] != "-w" || len(f) < 2 {
		return 0, fmt.Errorf("unknown option %q", f[0])
	}
	w, err := strconv.ParseUint(f[1], 10, 31)
	if err != nil {
		return 0, fmt.Errorf("weight %q: not a number", f[1])
	}
	r.Weight = uint32(w)
	return 2, nil
}

// directive reads what no tool prints. f has the words of line behind "#: ".
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
	case "iptables":
		p.family = IPv4
	case "ip6tables":
		p.family = IPv6
	case "hold":
		p.o.Policy.Hold = true
	case "delete-unknown":
		p.o.Policy.DeleteUnknown = true
	case "exclude":
		var c netip.Prefix
		c, err = netip.ParsePrefix(arg(1))
		p.o.Policy.ExcludeCIDRs = append(p.o.Policy.ExcludeCIDRs, c)
	case "drain-timeout":
		err = p.drainTimeout(f[1:])
	case "fresh":
		p.o.Fresh = true
	case "names":
		p.o.Names = Names{Prefix: arg(1), Device: arg(2)}
	case "clock":
		p.o.Clock, err = time.Parse(time.RFC3339Nano, arg(1))
	case "saved":
		err = p.saved(strings.TrimPrefix(line, directive+"saved "))
	case "owned":
		var k VirtualKey
		k, _, err = parseVirtualKey(f[1:])
		p.o.Owned = append(p.o.Owned, k)
	case "drain":
		err = p.drain(f[1:])
	case "fwmark":
		p.o.FWMark, err = strconv.Atoi(arg(1))
	default:
		err = p.o.Node.directive(f[0], arg(1), arg(3))
	}
	return err
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
	saved := SavedSysctl{Name: name}
	if saved.Before, err = strconv.Unquote(before); err != nil {
		return err
	}
	if saved.Ours, err = strconv.Unquote(ours); err != nil {
		return fmt.Errorf("saved %s: our value: %w", name, err)
	}
	p.o.Saved = append(p.o.Saved, saved)
	return nil
}

func (p *parser) drainTimeout(f []string) error {
	if len(f) == 0 {
		return fmt.Errorf("drain-timeout: want a duration")
	}
	d, err := time.ParseDuration(f[0])
	if err != nil {
		return err
	}
	if len(f) == 1 {
		p.o.Policy.DrainTimeout = d
		return nil
	}
	k, _, err := parseVirtualKey(f[1:])
	p.o.Policy.Drains = append(p.o.Policy.Drains, VirtualDrain{Virtual: k, Timeout: d})
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
	p.o.Drains = append(p.o.Drains, Drain{Real: k, Since: since})
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
	case "br_netfilter":
		n.BrNetfilter = true
	case "release":
		_, err = fmt.Sscanf(value, "%d.%d", &n.Release.Major, &n.Release.Minor)
	default:
		return fmt.Errorf("unknown directive %q", name)
	}
	return err
}
