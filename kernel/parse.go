package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
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
	o.dropAliens()
	conns := make(map[RealKey]Conns, len(o.Conns))
	for i, c := range o.Conns {
		conns[o.Reals[i].Key] = c
	}
	o.Conns = nil
	o.Sort()
	slices.SortFunc(o.Probed, Claim.Compare)
	slices.SortFunc(o.Taken, func(a, b Taken) int { return a.Compare(b.Claim) })
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
		p.generated(s)
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
	if p.alien(f) {
		return nil
	}
	switch f[0] {
	case "create":
		return p.set(f)
	case "add":
		return p.entry(f)
	case "link":
		return p.link(f)
	case "addr":
		return p.addr(f)
	case "route":
		return p.route(f)
	case "neigh":
		return p.neighbor(f)
	case "--set":
		return p.timeouts(f)
	case "-A":
		return p.virtual(f)
	case "-a":
		return p.real(f)
	}
	// One without a value has lost the space behind it.
	if name, value, ok := strings.Cut(s+" ", " = "); ok {
		value = strings.TrimSpace(value)
		p.o.Sysctls = append(p.o.Sysctls, Sysctl{Name: name, Value: value})
		return nil
	}
	return fmt.Errorf("%q: no tool prints this", s)
}

func (p *parser) rule(s string) error {
	if p.family == 0 {
		p.family = IPv4
	}
	if strings.HasPrefix(s, "[") {
		_, s, _ = strings.Cut(s, "] ") // iptables-save -c
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

func (p *parser) route(f []string) error {
	if len(f) != 10 || strings.Join(f[:3], " ") != "route add local" || strings.Join(f[4:], " ") != fmt.Sprintf("dev lo table local proto %d", RouteProtocol) {
		return fmt.Errorf("want: route add local ADDRESS/LENGTH dev lo table local proto %d", RouteProtocol)
	}
	a, err := netip.ParsePrefix(f[3])
	if err != nil || !a.IsSingleIP() {
		return fmt.Errorf("route %q: want the full length, /32 or /128", f[3])
	}
	p.o.Routes = append(p.o.Routes, Route{Addr: a.Addr()})
	return nil
}

func (p *parser) neighbor(f []string) error {
	if len(f) != 6 || strings.Join(f[:3], " ") != "neigh add proxy" || f[4] != "dev" {
		return fmt.Errorf("want: neigh add proxy ADDRESS dev NAME")
	}
	a, err := netip.ParseAddr(f[3])
	if err != nil || a.Zone() != "" {
		return fmt.Errorf("neighbour %q: want an address", f[3])
	}
	p.o.Neighbors = append(p.o.Neighbors, Neighbor{Addr: a, Link: f[5]})
	return nil
}
