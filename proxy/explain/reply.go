package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/sources"
)

// replies says which way replies take. A reply that does not pass this node keeps the
// backend's address, and its client drops it.
func (x *explainer) replies() {
	if x.verdict.Fate != packet.Balanced {
		return
	}
	var texts []string
	of := map[string][]string{}
	lost := map[string]bool{}
	for i := range x.a.Backends {
		b := &x.a.Backends[i]
		if !b.Usable || b.Lost != "" {
			continue
		}
		x.reply(b)
		if of[b.Reply] == nil {
			texts = append(texts, b.Reply)
		}
		of[b.Reply] = append(of[b.Reply], b.Address.Addr().String())
		lost[b.Reply] = b.Lost != ""
	}
	for _, text := range texts {
		x.step(stageReply, "of %s: %s", sources.Few(of[text], 3), text)
		x.a.Steps[len(x.a.Steps)-1].Wrong = lost[text]
	}
}

// reply sets the way of a backend's replies.
func (x *explainer) reply(b *Backend) {
	backend, client := b.Address.Addr(), x.p.Src.Addr()
	here := x.local(backend) != ""
	if b.Forward != "" && !here {
		x.replyPast(b)
		return
	}
	if x.silent(b) {
		b.Reply = "does not reach the client: IPVS forgets each datagram, and translates no reply"
		return
	}
	if x.p.In == "" {
		b.Reply = "goes to the node itself"
		return
	}
	if b.Lost = x.unroutable(b, here); b.Lost != "" {
		b.Reply = b.Lost
		return
	}
	switch {
	case here:
		b.Reply = "leaves from the node itself"
	case b.Masqueraded:
		b.Reply = "comes back to this node, whose address is its destination"
	case x.direct(backend, client) != "":
		b.Reply = fmt.Sprintf("goes from %s to %s directly, both are in %s: it does not pass this node, and the client "+
			"drops it",
			backend, client, x.direct(backend, client))
		b.Lost = "its reply does not pass this node"
	default: // connections that IPVS counts as active may be waiting for their first reply
		b.Reply = x.asRouted(b)
		b.ifReply = true
	}
}

// silent reports whether the client gets no reply of a backend. Nothing is lost: onePacket is for protocols
// without replies.
func (x *explainer) silent(b *Backend) bool { return x.onePacket && b.Forward == "" }

// replyPast is the way of a reply from a backend that got the packet unchanged: past this node. What the node itself
// sends to a VIP of its own has the VIP as its source, to which the backend answers itself.
func (x *explainer) replyPast(b *Backend) {
	vip := x.p.Dst.Addr()
	if x.p.In == "" && x.local(vip) != "" {
		b.Reply = fmt.Sprintf("does not come back: both this node and %s have %s", b.Address.Addr(), vip)
		b.Lost = b.Reply
		return
	}
	b.Reply = fmt.Sprintf("goes to the client past this node; %s must have %s itself", b.holder(), vip)
}

// holder is the host that gets a packet unchanged. Direct routing hands it to the gateway, which looks at its
// destination alone.
func (b *Backend) holder() string {
	if b.Forward == methods[kernel.Direct] && b.Gateway.IsValid() {
		return "the gateway " + b.Gateway.String()
	}
	return "the backend"
}

// asRouted is the way of a reply that the backend's routes decide.
func (x *explainer) asRouted(b *Backend) string {
	text := fmt.Sprintf("passes this node only if the backend's route to %s does", x.p.Src.Addr())
	if b.Gateway.IsValid() {
		return text + fmt.Sprintf(", and that of %s", b.Gateway)
	}
	network, link := x.network(b.Address.Addr())
	for _, g := range x.Kernel.Node.Gateways {
		if link != "" && network.Contains(g) {
			return text + fmt.Sprintf(": probably not, as %s is the gateway in %s", g, network)
		}
	}
	return text
}

// direct returns the network in which a backend and a client reach each other without
// this node; zero if there is none. On a bridge whose packets pass iptables, replies are
// caught.
func (x *explainer) direct(backend, client netip.Addr) string {
	for _, own := range x.Kernel.Node.Addrs {
		if !own.Prefix.Contains(backend) || !own.Prefix.Contains(client) {
			continue
		}
		filtered := slices.ContainsFunc(x.Kernel.Node.Bridges, func(b kernel.Bridge) bool {
			return b.Link == own.Link && b.Filtered(kernel.FamilyOf(backend))
		})
		if !filtered {
			return own.Prefix.Masked().String()
		}
	}
	return ""
}

// unroutable says why this node does not send replies of a backend on to the client, "" if it does. Replies of another
// host are routed as what came in from it. IPVS then asks for the way of the VIP's own packets (ip_vs_route_me_harder).
func (x *explainer) unroutable(b *Backend, here bool) string {
	client := x.p.Src.Addr()
	if h, ok := x.hop(kernel.Path{Dst: client}); ok && h.Kind != kernel.Unicast && h.Kind != kernel.LocalRoute {
		return fmt.Sprintf("this node has no route to %s (%s)", client, h.Kind)
	}
	if here {
		return ""
	}
	if name := x.notForwarding(b.Address.Addr(), b.Link); name != "" {
		return name + " is 0: this node sends no reply on to its client"
	}
	var ways []kernel.Path
	if b.Link != "" {
		ways = append(ways, kernel.Path{Src: b.Address.Addr(), Dst: client, In: b.Link, Mark: b.back.mark})
	}
	if vip := x.p.Dst.Addr(); x.served() && x.local(vip) != "" { // the kernel refuses to tell of any other source
		ways = append(ways, kernel.Path{Src: vip, Dst: client, Mark: b.back.mark})
	}
	for _, q := range ways {
		switch h, ok := x.hop(q); {
		case !ok || h.Kind == kernel.Unicast || h.Kind == kernel.LocalRoute:
		case h.Kind == kernel.Forged:
			return fmt.Sprintf("the kernel does not expect %s at %s (rp_filter), and drops its replies", q.Src, q.In)
		default:
			return fmt.Sprintf("this node has no route from %s to %s (%s)", q.Src, client, h.Kind)
		}
	}
	return ""
}

// notForwarding returns the kernel parameter that keeps what comes in by a link from being forwarded, ""
// if none does. IPv4 has one for each device.
func (x *explainer) notForwarding(a netip.Addr, link string) string {
	name := kernel.ForwardingIPv6
	if a.Is4() {
		name = "net.ipv4.ip_forward"
		if x.Network != nil && link != "" {
			name = "net.ipv4.conf." + strings.ReplaceAll(link, ".", "/") + ".forwarding"
		}
	}
	if x.sysctl(name) == "0" {
		return name
	}
	return ""
}
