package explain

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Explain says what becomes of the first packet of a connection.
func Explain(f Facts, p packet.Packet) Answer {
	x := &explainer{Facts: f, p: p, key: f.keyOf(p)}
	x.a = Answer{Packet: p.String(), Origin: FromOutside, Steps: []Step{}, Backends: []Backend{}}
	if p.In == "" {
		x.a.Origin = FromNode
	}
	x.front = f.front(x.key)
	x.firewall = packet.NewFirewall(&x.Kernel)
	var err error
	x.verdict, err = packet.Trace(f.Kernel.State, x.node(), p)
	x.tracking()
	if p.In != "" {
		x.comesIn()
	}
	if x.p != p { // rules of others marked it, or took it out of connection tracking
		x.key = f.keyOf(x.p)
		x.front = f.front(x.key)
		x.verdict, err = packet.Trace(f.Kernel.State, x.node(), x.p)
	}
	v := x.verdict
	x.arrival()
	x.admitted()
	before, after := split(v.Path())
	x.rules(before)
	if err != nil {
		x.end(Unknown, "not known: "+err.Error())
	}
	if p.In != "" && v.Fate != packet.Forwarded && !x.sentOn() {
		x.received("input")
	}
	x.virtual()
	if v.Fate != packet.Forwarded {
		x.backends()
	}
	x.rules(after)
	x.leaving()
	x.replies()
	x.conclude()
	return x.a
}

// keyOf is the virtual server that would get a packet: IPVS asks for that of its mark first.
func (f *Facts) keyOf(p packet.Packet) kernel.VirtualKey {
	if p.Mark != 0 {
		k := kernel.MarkKey(kernel.FamilyOf(p.Dst.Addr()), p.Mark)
		_, found := kernel.FindVirtual(f.Kernel.Virtuals, k)
		if found || f.front(k) != nil {
			return k
		}
	}
	return kernel.VirtualAt(p.Dst, p.Proto)
}

// explainer makes one Answer.
type explainer struct {
	Facts
	p       packet.Packet     // as rules of others have left it
	key     kernel.VirtualKey // at which a virtual server would get the packet
	front   *frontend.Front   // at key; nil if there is none
	verdict packet.Verdict
	a       Answer
	// firewall is the rules of other programs, and doubts are those of them that cannot be judged.
	firewall *packet.Firewall
	doubts   []doubt
	hidden   packet.Field // what is not known of p any more
	limits   []string     // conditions of the service for its clients
	// unanswered: neighbours do not learn from this node where the destination is.
	unanswered bool
	onePacket  bool           // the virtual server balances each datagram alone
	foreign    bool           // a virtual server of another program has a service's address
	only       netip.AddrPort // the backend that a hash scheduler chooses; zero if it is not known
}

func (x *explainer) step(s Stage, format string, args ...any) {
	x.a.Steps = append(x.a.Steps, Step{Stage: s, Text: fmt.Sprintf(format, args...)})
}

// once is step, unless the last step says the same.
func (x *explainer) once(s Stage, format string, args ...any) {
	x.step(s, format, args...)
	if n := len(x.a.Steps); n > 1 && x.a.Steps[n-1] == x.a.Steps[n-2] {
		x.a.Steps = x.a.Steps[:n-1]
	}
}

func (x *explainer) wrong(s Stage, format string, args ...any) {
	x.step(s, format, args...)
	x.a.Steps[len(x.a.Steps)-1].Wrong = true
}

// end sets what becomes of the packet. The first obstacle on its way decides.
func (x *explainer) end(f Fate, sentence string) {
	if x.a.Fate == "" {
		x.a.Fate, x.a.Sentence = f, sentence
	}
}

// node is the node for the tracer, with an address that another program made local.
func (x *explainer) node() kernel.Node {
	n, a := x.Kernel.Node, x.p.Dst.Addr()
	if by := x.local(a); strings.HasSuffix(by, "another program") {
		n.Addrs = append(n.Addrs[:len(n.Addrs):len(n.Addrs)],
			kernel.NodeAddr{Prefix: netip.PrefixFrom(a, a.BitLen()), Link: "lo"})
	}
	return n
}

// tracking reports whether connection tracking has room for a new connection. If not, the packet is
// dropped, whatever it is for, unless the kernel gives up a connection without a reply for it.
func (x *explainer) tracking() {
	have, err := strconv.ParseUint(x.sysctl("net.netfilter.nf_conntrack_count"), 10, 64)
	most, err2 := strconv.ParseUint(x.sysctl("net.netfilter.nf_conntrack_max"), 10, 64)
	if err != nil || err2 != nil || most == 0 || have < most || x.p.Established {
		return
	}
	x.wrong(stageRule, "connection tracking has %d entries of at most %d: it drops packets of new connections", have, most)
	x.end(Dropped, fmt.Sprintf("dropped by connection tracking: its table is full (%d of net.netfilter.nf_conntrack_max "+
		"= %d)", have, most))
}

// arrival reports whether the destination is local, and who sends packets for it here.
func (x *explainer) arrival() {
	dst := x.p.Dst.Addr()
	if x.p.In != "" {
		x.routed(x.p.Src.Addr(), dst)
	}
	by := x.local(dst)
	if by == "" {
		x.notLocal(dst)
		return
	}
	x.step(stageRoute, "%s is local: %s", dst, by)
	if x.p.In != "" && !dst.IsLoopback() {
		x.answers(dst)
	}
}

// routed notes what the kernel does with a packet that comes in, by its source, routes and routing rules.
func (x *explainer) routed(src, dst netip.Addr) {
	h, ok := x.hop(kernel.Path{Src: src, Dst: dst, In: x.p.In, Mark: x.mark()})
	switch own := x.local(src); {
	case own != "" && dst.Is4(): // whatever rp_filter is
		x.wrong(stageRoute, "the source %s is this node's: %s", src, own)
		x.end(Dropped, fmt.Sprintf("dropped by the kernel: its source %s is an address of this node (%s), and it comes in "+
			"by %s", src, own, x.p.In))
	case !ok:
	case h.Kind == kernel.Forged:
		x.wrong(stageRoute, "the kernel does not expect %s at %s: its own route to it leaves elsewhere", src, x.p.In)
		x.end(Dropped, fmt.Sprintf("dropped by the kernel's check of sources (rp_filter): %s should not come in by %s", src,
			x.p.In))
	case h.Kind == kernel.Prohibited, h.Kind == kernel.Blackhole:
		x.wrong(stageRoute, "a route or routing rule of this node stops %s to %s (%s)", src, dst, h.Kind)
		x.end(Dropped, fmt.Sprintf("dropped by a route or routing rule: %s from %s by %s is %s", dst, src, x.p.In, h.Kind))
	}
}

// mark is the packet's when it is routed, and at hook input: rules of ours at hook prerouting may have given it one.
func (x *explainer) mark() uint32 {
	if ways := x.verdict.Ways; len(ways) > 0 {
		return ways[0].Mark
	}
	return x.p.Mark
}

func (x *explainer) notLocal(dst netip.Addr) {
	way := ""
	if h, ok := x.hop(kernel.Path{Dst: dst}); ok {
		if way = ", it leaves by " + h.Link; h.Kind != kernel.Unicast {
			way = ", and no route leads there"
		}
	}
	if by := x.Elsewhere[dst]; by != "" && x.p.In != "" {
		x.wrong(stageRoute, "%s is not local%s: %s", dst, way, by)
		x.end(Forwarded, fmt.Sprintf("not served: %s is not on this node: %s", dst, by))
		return
	}
	if x.front != nil && x.front.Traits.Has(frontend.Bound) {
		x.wrong(stageRoute, "%s is not local%s; service %s wants it here", dst, way, x.service(x.front).DisplayName())
		return
	}
	x.step(stageRoute, "%s is not local%s", dst, way)
}

// answers reports whether neighbours learn from this node where the destination is.
func (x *explainer) answers(dst netip.Addr) {
	in := x.p.In
	switch onLink := x.Kernel.Node.LinkOf(dst) == in; {
	case !x.connected(dst, in):
		x.step(stageLink, "%s is in no network of %s: hosts there need a route to it by this node", dst, in)
	case dst.Is4() && !onLink && x.arpIgnore() > "0":
		x.wrong(stageLink, "this node does not answer ARP for %s on %s (arp_ignore is %s): another host must send its "+
			"packets here", dst, in, x.arpIgnore())
		x.unanswered = true
	case dst.Is4():
		x.step(stageLink, "this node answers ARP for %s on %s", dst, in)
	case onLink || x.proxied(dst):
		x.step(stageLink, "this node answers neighbour discovery for %s on %s", dst, in)
	default:
		x.wrong(stageLink, "this node does not answer neighbour discovery for %s on %s: another host must send its packets "+
			"here", dst, in)
		x.unanswered = true
	}
}

// asks has how hosts of a family ask for each other's addresses.
var asks = map[kernel.Family]string{kernel.IPv4: "ARP", kernel.IPv6: "neighbour discovery"}

// arpIgnore is the larger of the values for all links and for the link that the packet
// comes in by, as the kernel has it.
func (x *explainer) arpIgnore() string {
	link := strings.ReplaceAll(x.p.In, ".", "/")
	return max(x.sysctl("net.ipv4.conf.all.arp_ignore"), x.sysctl("net.ipv4.conf."+link+".arp_ignore"))
}

// proxied reports whether there is a proxy neighbour for an address on the packet's link.
func (x *explainer) proxied(a netip.Addr) bool {
	for _, list := range [][]kernel.Neighbor{x.Kernel.Neighbors, x.Kernel.Answered} {
		for _, n := range list {
			if n.Addr == a && n.Link == x.p.In {
				return true
			}
		}
	}
	return false
}
