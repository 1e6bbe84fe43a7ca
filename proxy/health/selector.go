package health

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// Selector says which endpoints an override is for. Exactly one of Addr, Prefix and Node is set. It is comparable.
type Selector struct {
	Service string     // "namespace/name"; "" = of all services
	Addr    netip.Addr // endpoints with this address
	Port    uint16     // and this port; 0 = all their ports
	Prefix  netip.Prefix
	Node    string
}

// ParseSelector reads the TARGET of a command: ADDRESS, ADDRESS:PORT, SERVICE/ADDRESS, SERVICE/ADDRESS:PORT,
// node=NAME or a CIDR. A SERVICE without a namespace is of the default one.
func ParseSelector(text string) (Selector, error) {
	if node, ok := strings.CutPrefix(text, "node="); ok {
		if node == "" || strings.ContainsFunc(node, unprintable) || strings.Contains(node, " ") {
			return Selector{}, fmt.Errorf("target %q: a node's name is missing after node=", text)
		}
		return Selector{Node: node}, nil
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return prefix(p)
	}
	var s Selector
	rest := text
	if i := strings.LastIndexByte(text, '/'); i >= 0 {
		name, err := ParseService(text[:i])
		if err != nil {
			return Selector{}, fmt.Errorf("target %q: %w", text, err)
		}
		s.Service, rest = name, text[i+1:]
	}
	if a, err := netip.ParseAddrPort(rest); err == nil && a.Port() != 0 {
		s.Addr, s.Port = a.Addr(), a.Port()
	} else if s.Addr, err = netip.ParseAddr(rest); err != nil {
		return Selector{}, fmt.Errorf("target %q is not ADDRESS, ADDRESS:PORT, SERVICE/ADDRESS, node=NAME or a CIDR", text)
	}
	if s.Addr.Zone() != "" {
		return Selector{}, fmt.Errorf("target %q: an endpoint's address has no zone", text)
	}
	s.Addr = s.Addr.Unmap()
	return s, nil
}

// prefix clears the host bits of a CIDR.
func prefix(p netip.Prefix) (Selector, error) {
	if p.Addr().Is4In6() {
		return Selector{}, fmt.Errorf("target %q is an IPv4-mapped IPv6 network: write the IPv4 network", p)
	}
	return Selector{Prefix: p.Masked()}, nil
}

// ParseService returns the full name of a service that is given as NAME or NAMESPACE/NAME.
func ParseService(text string) (string, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		namespace, name = sources.DefaultNamespace, text
	}
	for _, part := range []string{namespace, name} {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return r == '/' || r == ' ' || unprintable(r) }) {
			return "", fmt.Errorf("service %q is not NAME or NAMESPACE/NAME", text)
		}
	}
	return namespace + "/" + name, nil
}

// unprintable reports whether a character could confuse a terminal or a log.
func unprintable(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufffd' }

// String returns what ParseSelector reads. Node and CIDR have no form with a service: with one, its name and a space
// come first.
func (s Selector) String() string { return s.As(sources.Table{}.DisplayName(s.Service)) }

// In is String with the name that the service has in a table: one from Kubernetes keeps its namespace.
func (s Selector) In(t sources.Table) string { return s.As(t.DisplayName(s.Service)) }

// As is String with this name for the service, "" for none.
func (s Selector) As(of string) string {
	in := ""
	if of != "" {
		in = of + " "
	}
	switch {
	case s.Node != "":
		return in + "node=" + s.Node
	case s.Prefix.IsValid():
		return in + s.Prefix.String()
	}
	if of != "" {
		of += "/"
	}
	if s.Port != 0 {
		return of + netip.AddrPortFrom(s.Addr, s.Port).String()
	}
	return of + s.Addr.String()
}

// MarshalText returns the target alone: Service is a field of its own in Override's JSON.
func (s Selector) MarshalText() ([]byte, error) {
	s.Service = ""
	return []byte(s.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (s *Selector) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSelector(string(text))
	return err
}

// compare orders selectors by service, then by target.
func (s Selector) compare(o Selector) int {
	return cmp.Or(strings.Compare(s.Service, o.Service), strings.Compare(s.Node, o.Node),
		s.Prefix.Addr().Compare(o.Prefix.Addr()), cmp.Compare(s.Prefix.Bits(), o.Prefix.Bits()),
		s.Addr.Compare(o.Addr), cmp.Compare(s.Port, o.Port))
}

// matches reports whether an endpoint's port is meant.
func (s *Selector) matches(of *sources.Service, e *sources.Endpoint, port uint16) bool {
	switch {
	case s.Service != "" && !named(of, s.Service):
		return false
	case s.Node != "":
		return e.NodeName == s.Node
	case s.Prefix.IsValid():
		return s.Prefix.Contains(e.Addr)
	}
	return s.Addr == e.Addr && (s.Port == 0 || s.Port == port)
}

// named reports whether a service has a full name, without building it.
func named(s *sources.Service, full string) bool {
	n := len(s.Namespace)
	return len(full) == n+1+len(s.Name) && full[:n] == s.Namespace && full[n] == '/' && full[n+1:] == s.Name
}
