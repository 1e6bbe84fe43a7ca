package mode

import (
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Scope writes the rules of one family that modes share. Rules are compared as text, so
// each must be written exactly as iptables-save prints it: addresses, interfaces and
// protocol first, then the matches in the order given.
type Scope struct {
	Frontends *frontend.Frontends
	Config    *Config
	Family    kernel.Family
}

// Chain returns a chain of the family.
func (s *Scope) Chain(table, name string, rules ...string) kernel.Chain {
	return kernel.Chain{Family: s.Family, Table: table, Name: name, Rules: strings.Join(rules, "\n")}
}

// Ours returns a chain that we own.
func (s *Scope) Ours(table string, name kernel.ChainName, rules ...string) kernel.Chain {
	return s.Chain(table, s.Config.Names.Chain(name), rules...)
}

// Comment returns the match that carries a comment. iptables-save puts quotes around
// text with a space, so the text must have one, or another character beside letters,
// digits, - and _.
func Comment(text string) string { return `-m comment --comment "` + text + `" ` }

// To returns the jump to a chain that we own.
func (s *Scope) To(c kernel.ChainName) string { return "-j " + s.Config.Names.Chain(c) }

// Jump returns a rule that jumps to a chain that we own.
func (s *Scope) Jump(why string, to kernel.ChainName) string { return Comment(why) + s.To(to) }

// ByFamily returns the text for the scope's family.
func (s *Scope) ByFamily(v4, v6 string) string {
	if s.Family == kernel.IPv6 {
		return v6
	}
	return v4
}

// Reject returns the target that refuses a packet with an ICMP error.
func (s *Scope) Reject() string {
	return "-j REJECT --reject-with " + s.ByFamily("icmp-port-unreachable", "icmp6-port-unreachable")
}

// Ping matches ICMP echo requests.
func (s *Scope) Ping() string {
	return s.ByFamily("-p icmp -m icmp --icmp-type 8 ", "-p ipv6-icmp -m icmp6 --icmpv6-type 128 ")
}

// Local matches what comes from this node's own workloads. It returns "" if these cannot
// be recognised.
func (s *Scope) Local() string {
	cidrs := s.Config.ClusterCIDRs
	switch s.Config.DetectLocal {
	case DetectBridgeInterface:
		return "-i " + s.Config.BridgeInterface + " "
	case DetectInterfaceNamePrefix:
		return "-i " + s.Config.InterfaceNamePrefix + "+ "
	case DetectNodeCIDR:
		cidrs = s.Frontends.Config.LocalCIDRs
	}
	for _, c := range cidrs {
		if kernel.FamilyOf(c.Addr()) == s.Family {
			return "-s " + c.Masked().String() + " "
		}
	}
	return ""
}

// Mark is the packet mark that asks for masquerading.
func (s *Scope) Mark() string { return fmt.Sprintf("%#x", uint32(1)<<s.Config.MasqueradeBit) }

// Marked matches packets with the mark.
func (s *Scope) Marked() string { return "-m mark --mark " + s.Mark() + "/" + s.Mark() + " " }

// MarkMasq is nat KUBE-MARK-MASQ.
func (s *Scope) MarkMasq() kernel.Chain {
	return s.Ours("nat", kernel.ChainMarkMasq, "-j MARK --set-xmark "+s.Mark()+"/"+s.Mark())
}

// Postrouting is nat KUBE-POSTROUTING. It masquerades hairpin traffic by the rules given,
// and marked packets. The mark is cleared first (xor): a packet that passes again, for
// example in a tunnel, must not be masqueraded twice.
func (s *Scope) Postrouting(hairpin ...string) kernel.Chain {
	rules := append(hairpin,
		"-m mark ! --mark "+s.Mark()+"/"+s.Mark()+" -j RETURN",
		"-j MARK --set-xmark "+s.Mark()+"/0x0")
	return s.Ours("nat", kernel.ChainPostrouting, append(rules, s.masquerade()...)...)
}

// masquerade returns the last rules of KUBE-POSTROUTING. kube-proxy gives each connection a random port; in the
// lean layout TCP keeps the client's port where it is free. An endpoint that closes first keeps the ports in
// TIME_WAIT for 60 s, and takes a SYN from there only if its timestamp is newer. Linux 6.18 has timestamps of their
// own for each pair of ports, so a random port that another port of the client had before may cost a second SYN, 10
// ms to 1 s later.
//
// Random ports make it rare that two clients with one port, at the same moment and on two processors, are given the
// same one, which drops a SYN: 33 of 2,000 such pairs lost one on Linux 6.18, and none with random ports. Datagrams
// keep random ports: nothing remembers them, and clients of a fixed port (NTP, RADIUS) do send at the same moment.
func (s *Scope) masquerade() []string {
	const why = "kubernetes service traffic requiring SNAT"
	random := Comment(why) + "-j MASQUERADE --random-fully"
	if !s.Config.Lean {
		return []string{random}
	}
	return []string{"-p tcp " + Comment(why) + "-j MASQUERADE", random}
}

// Forward is filter KUBE-FORWARD. It accepts packets that we balanced and the other
// packets of their connections. The rules given come first.
func (s *Scope) Forward(first ...string) kernel.Chain {
	return s.Ours("filter", kernel.ChainForward, append(first, s.ForwardMarked(), ForwardKnown)...)
}

// ForwardMarked is the rule of KUBE-FORWARD that accepts packets with the mark.
func (s *Scope) ForwardMarked() string {
	return Comment("kubernetes forwarding rules") + s.Marked() + "-j ACCEPT"
}

// ForwardKnown is the rule of KUBE-FORWARD that accepts packets of known connections.
var ForwardKnown = Comment("kubernetes forwarding conntrack rule") +
	"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
