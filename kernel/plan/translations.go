package plan

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// In mode iptables, rules of table nat balance connections, and there are no virtual servers. translations
// reads from these rules which backends each address of a protocol leads to, for diffFlows and
// diffRuleDrains. In mode userspace the port of a portal is the only backend. It understands only rules that
// proxy/mode/iptables and proxy/mode/userspace write.

// Node ports are also served at 127.0.0.0/8, by one rule. Programs use this address of it: flows to others
// are not found.
var loopbackNet, localhost = netip.AddrFrom4([4]byte{127}), netip.AddrFrom4([4]byte{127, 0, 0, 1})

// leads has the addresses that rules lead to backends, and the backends, as sorted virtual and real
// servers.
type leads struct {
	proto    kernel.Proto
	virtuals []kernel.Virtual
	reals    []kernel.Real
}

// translations returns the addresses of one protocol of a state's rules and maps with their backends.
func translations(n kernel.Names, s *kernel.State, proto kernel.Proto) leads {
	l := byRules(n, s.Chains, proto)
	l.addSlots(n, s.Entries)
	l.sort()
	return l
}

// byRules is translations for rules alone.
func byRules(n kernel.Names, chains []kernel.Chain, proto kernel.Proto) leads {
	l := leads{proto: proto}
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		rules := map[string]string{}
		for i := range chains {
			if c := &chains[i]; c.Family == family && c.Table == "nat" {
				rules[c.Name] = c.Rules
			}
		}
		w := translator{rules: rules, names: n, proto: proto, backends: map[string][]netip.AddrPort{}}
		nodePorts := w.named(rules[n.Chain(kernel.ChainNodePorts)])
		for rule := range strings.SplitSeq(rules[n.Chain(kernel.ChainServices)], "\n") {
			m := match(rule)
			switch {
			case !m.addr.IsValid():
			case kernel.Target(rule) == n.Chain(kernel.ChainNodePorts):
				at := m.addr
				if at == loopbackNet {
					at = localhost
				}
				for _, p := range nodePorts {
					l.add(netip.AddrPortFrom(at, p.port), w.of(p.chain))
				}
			case m.proto == proto && m.port != 0:
				l.add(netip.AddrPortFrom(m.addr, m.port), w.of(kernel.Target(rule)))
			}
		}
		l.addPortals(rules[n.Chain(kernel.ChainPortalsContainer)])
	}
	l.sort()
	return l
}

func (l *leads) sort() {
	kernel.SortFunc(l.virtuals, kernel.Virtual.Compare)
	slices.SortFunc(l.reals, kernel.Real.Compare)
	l.virtuals, l.reals = slices.Compact(l.virtuals), slices.Compact(l.reals)
}

// Translated returns what rules of mode iptables, and maps of mode nftables, are instead of virtual and real servers:
// each address that they lead to endpoints, and each that they refuse because it has none. They have no scheduler, and
// each endpoint has weight 1: rules do not know those of weight 0. Both are sorted.
func Translated(o *kernel.Observed) (virtuals []kernel.Virtual, reals []kernel.Real) {
	for _, proto := range []kernel.Proto{kernel.TCP, kernel.UDP, kernel.SCTP} {
		l := translations(o.Names, &o.State, proto)
		for i := range l.reals {
			l.reals[i].Weight = 1
		}
		virtuals, reals = append(virtuals, l.virtuals...), append(reals, l.reals...)
	}
	for i := range o.Chains {
		c := &o.Chains[i]
		if c.Table != "filter" || !o.Names.IsChain(c.Name, kernel.ChainServices) &&
			!o.Names.IsChain(c.Name, kernel.ChainExternalServices) {
			continue
		}
		for rule := range strings.SplitSeq(c.Rules, "\n") {
			if m := match(rule); m.addr.IsValid() && m.port != 0 && kernel.Target(rule) == "REJECT" {
				virtuals = append(virtuals, kernel.Virtual{Key: kernel.VirtualKey{Addr: m.addr, Port: m.port, Proto: m.proto}})
			}
		}
	}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		for e := range o.Entries.Of(o.Names.Set(f, kernel.Frontends)).All() {
			virtuals = append(virtuals, kernel.Virtual{Key: e.Key()}) // those with slots are there already
		}
	}
	kernel.SortFunc(virtuals, kernel.Virtual.Compare)
	slices.SortFunc(reals, kernel.Real.Compare)
	return slices.Compact(virtuals), slices.Compact(reals)
}

func (l *leads) add(a netip.AddrPort, backends []netip.AddrPort) {
	key := kernel.VirtualAt(a, l.proto)
	l.virtuals = append(l.virtuals, kernel.Virtual{Key: key})
	for _, b := range backends {
		l.reals = append(l.reals, kernel.Real{Key: kernel.RealKey{Virtual: key, Addr: b}})
	}
}

// addPortals adds the portals of UDP. Over TCP the relay ends their connections, and nothing drains.
func (l *leads) addPortals(rules string) {
	if l.proto != kernel.UDP {
		return
	}
	for rule := range strings.SplitSeq(rules, "\n") {
		_, value, _ := strings.Cut(rule, "--to-destination ")
		to, err := netip.ParseAddrPort(value)
		if m := match(rule); err == nil && m.addr.IsValid() && m.proto == l.proto && m.port != 0 {
			l.add(netip.AddrPortFrom(m.addr, m.port), []netip.AddrPort{to})
		}
	}
}

// translator finds the backends that chains lead to.
type translator struct {
	rules    map[string]string // of a chain
	names    kernel.Names
	proto    kernel.Proto
	backends map[string][]netip.AddrPort // of the chains that were asked for
}

// nodePort is a rule of KUBE-NODEPORTS.
type nodePort struct {
	port  uint16
	chain string
}

func (w *translator) named(rules string) (list []nodePort) {
	for rule := range strings.SplitSeq(rules, "\n") {
		if m := match(rule); m.proto == w.proto && m.port != 0 {
			list = append(list, nodePort{m.port, kernel.Target(rule)})
		}
	}
	return list
}

// of returns the backends that a chain of a service leads to.
func (w *translator) of(chain string) []netip.AddrPort {
	if list, known := w.backends[chain]; known || w.names.OwnsHashed(chain) == "" {
		return list
	}
	w.backends[chain] = nil // a loop ends here
	var list []netip.AddrPort
	for rule := range strings.SplitSeq(w.rules[chain], "\n") {
		to := leadsTo(w.names, rule)
		if a, err := netip.ParseAddrPort(to); err == nil {
			list = append(list, a)
		} else {
			list = append(list, w.of(to)...)
		}
	}
	w.backends[chain] = list
	return list
}

// matched is what a rule asks of a packet.
type matched struct {
	addr  netip.Addr // of the destination
	proto kernel.Proto
	port  uint16
}

func match(rule string) (m matched) {
	words := strings.Fields(kernel.WithoutComment(rule))
	for i := 0; i+1 < len(words); i++ {
		value := words[i+1]
		switch {
		case i > 0 && words[i-1] == "!":
		case words[i] == "-d":
			addr, _, _ := strings.Cut(value, "/")
			m.addr, _ = netip.ParseAddr(addr)
		case words[i] == "-p":
			m.proto, _ = kernel.ParseProto(value)
		case words[i] == "--dport":
			port, _ := strconv.ParseUint(value, 10, 16)
			m.port = uint16(port)
		}
	}
	return m
}

// translates reports whether a chain of ours leads packets of a protocol to backends. It looks for the name
// alone first: each word of a rule begins like "-p udp", and that search took 5 % of a load.
func translates(n kernel.Names, o kernel.Object, proto kernel.Proto) bool {
	c, ok := o.(kernel.Chain)
	if other, is := o.(kernel.OtherChain); is {
		c, ok = other.Chain, true
	}
	name := proto.String() + " "
	return ok && c.Table == "nat" && (n.OwnsHashed(c.Name) != "" || n.IsChain(c.Name, kernel.ChainServices) ||
		n.IsChain(c.Name, kernel.ChainNodePorts) ||
		proto == kernel.UDP && n.IsChain(c.Name, kernel.ChainPortalsContainer)) &&
		strings.Contains(c.Rules, name) && strings.Contains(c.Rules, "-p "+name)
}
