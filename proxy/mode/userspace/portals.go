package userspace

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// Served returns the keys of the virtual servers that State has, sorted.
func Served(f *frontend.Frontends) []kernel.VirtualKey {
	keys := make([]kernel.VirtualKey, 0, len(f.Fronts))
	for i := range f.Fronts {
		if x := &f.Fronts[i]; (Mode{}).WhyNot(x) == "" {
			keys = append(keys, x.Key)
		}
	}
	kernel.SortFunc(keys, kernel.VirtualKey.Compare)
	return keys
}

// whyPortals is kube-proxy's comment.
const whyPortals = "handle ClusterIPs; NOTE: this must be before the NodePort rules"

// portalChains returns the rules that redirect packets for portals, in kube-proxy's chains. The address stays
// the same, so that one rule serves other hosts and this one, and nothing listens on other addresses.
func portalChains(f *frontend.Frontends, c *mode.Config) (chains []kernel.Chain) {
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		w := mode.Scope{Frontends: f, Config: c, Family: family}
		var rules []string
		for _, p := range c.Portals {
			i, found := f.Find(p.Virtual)
			if !found || p.Virtual.Family() != family {
				continue
			}
			x := &f.Fronts[i]
			name := f.Service(x).FullName()
			if port := f.Service(x).Ports[x.Port].Name; port != "" {
				name += ":" + port
			}
			rules = append(rules, redirect(p, name))
		}
		if rules != nil {
			chains = append(chains,
				w.Chain("nat", "PREROUTING", w.Jump(whyPortals, kernel.ChainPortalsContainer)),
				w.Ours("nat", kernel.ChainPortalsContainer, rules...),
				w.Chain("nat", "OUTPUT", w.Jump(whyPortals, kernel.ChainPortalsHost)),
				w.Ours("nat", kernel.ChainPortalsHost, rules...))
		}
	}
	return chains
}

// redirect is the rule of one portal, as iptables-save prints it.
func redirect(p mode.Portal, name string) string {
	a, proto := p.Virtual.AddrPort(), p.Virtual.Proto
	return fmt.Sprintf("-d %s -p %s %s-m %s --dport %d -j DNAT --to-destination %s",
		netip.PrefixFrom(a.Addr(), a.Addr().BitLen()),
		proto, mode.Comment(name), proto, a.Port(), netip.AddrPortFrom(a.Addr(), p.Port))
}

// PortalTrial returns a rule of each kind that portals need, in chains that nothing jumps to.
func PortalTrial(n kernel.Names) (chains []kernel.Chain) {
	for _, vip := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
		k := kernel.VirtualAt(netip.MustParseAddrPort(vip), kernel.TCP)
		chains = append(chains, kernel.Chain{
			Family: k.Family(), Table: "nat", Name: n.Chain(kernel.ChainTrial),
			Rules: redirect(mode.Portal{Virtual: k, Port: 1}, "a trial"),
		})
	}
	return chains
}

// PortalsOf returns the portals that rules have, sorted. It is for a process that does not have the relay.
func PortalsOf(s *kernel.State, n kernel.Names) (all []mode.Portal) {
	for i := range s.Chains {
		if c := &s.Chains[i]; c.Table == "nat" && n.IsChain(c.Name, kernel.ChainPortalsContainer) {
			for rule := range strings.SplitSeq(c.Rules, "\n") {
				if p, ok := portalOf(rule); ok {
					all = append(all, p)
				}
			}
		}
	}
	kernel.SortFunc(all, func(a, b mode.Portal) int { return a.Virtual.Compare(b.Virtual) })
	return all
}

// portalOf reads what redirect writes.
func portalOf(rule string) (p mode.Portal, ok bool) {
	words := strings.Fields(kernel.WithoutComment(rule))
	value := func(option string) string {
		if i := slices.Index(words, option); i >= 0 && i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	vip, err := netip.ParsePrefix(value("-d"))
	port, err2 := strconv.ParseUint(value("--dport"), 10, 16)
	proto, err3 := kernel.ParseProto(value("-p"))
	to, err4 := netip.ParseAddrPort(value("--to-destination"))
	p = mode.Portal{Virtual: kernel.VirtualKey{Addr: vip.Addr(), Port: uint16(port), Proto: proto}, Port: to.Port()}
	return p, err == nil && err2 == nil && err3 == nil && err4 == nil
}
