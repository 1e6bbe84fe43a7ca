package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// conclude sets the sentence, unless an obstacle has.
func (x *explainer) conclude() {
	switch x.verdict.Fate {
	case packet.Balanced:
		x.balanced()
	case packet.Refused:
		x.end(Refused, "refused because "+x.noBackend())
	case packet.Rejected:
		x.end(Refused, "refused because "+x.why())
	case packet.Dropped:
		x.end(Dropped, "dropped because "+x.why())
	case packet.Host:
		x.end(ToNode, fmt.Sprintf("not served: %s; the node itself gets it", x.nothingThere()))
	case packet.Forwarded:
		x.end(Forwarded, fmt.Sprintf("not served: %s is not on this node, which only forwards the packet%s", x.p.Dst.Addr(),
			x.wanted()))
	}
}

// balanced is the sentence for a packet that backends get, or lose.
func (x *explainer) balanced() {
	var works, lost, holders, unproven, quiet []string
	why, depends, silent, down := "", false, false, true
	fate, word := Refused, "refused"
	for _, b := range x.a.Backends {
		switch {
		case !x.gets(&b):
		case b.Lost != "":
			lost = append(lost, b.share())
			if !b.rejected {
				fate, word = Dropped, "dropped"
			}
			if why == "" {
				why = b.Lost
			}
		default:
			works = append(works, b.share())
			depends, silent, down = depends || b.ifReply, silent || x.silent(&b), down && b.down
			switch {
			case b.silent != "":
				quiet = append(quiet, fmt.Sprintf("%s answers (%s)", b.Address, b.silent))
			case !b.up && !b.down:
				unproven = append(unproven, b.Address.String())
			}
			if b.Forward != "" && !slices.Contains(holders, b.holder()) {
				holders = append(holders, b.holder())
			}
		}
	}
	conditions := slices.Concat(x.limits, x.answer(unproven, len(works)), quiet, x.conditions(depends, holders))
	for _, d := range x.doubts {
		conditions = append(conditions, d.String())
	}
	text := "served by "
	if down {
		text += "backends that are all down: "
	}
	text += sources.Few(works, 4) + x.sources()
	if silent {
		text += ", without replies"
	}
	if x.foreign {
		text += fmt.Sprintf(", by a virtual server of another program, although service %s wants the address", x.a.Service)
	}
	switch {
	case len(works) == 0:
		x.end(fate, fmt.Sprintf("%s at %s: %s", word, sources.Few(lost, 4), why))
		return
	case len(conditions) > 0:
		text += ", if " + strings.Join(conditions, " and ")
	}
	if len(lost) > 0 {
		x.end(Partly, fmt.Sprintf("%s; lost at %s: %s", text, sources.Few(lost, 4), why))
		return
	}
	if len(x.doubts)+len(quiet) > 0 || down {
		x.end(Unsure, text)
	}
	x.end(Served, text)
}

// answer is the condition that backends answer, unless their checks say so.
func (x *explainer) answer(unproven []string, of int) []string {
	text := sources.Few(unproven, 3)
	switch n := len(unproven); {
	case n == 0:
		return nil
	case of == 1:
		text = "it answers"
	case n == of:
		text = "they answer"
	case n == 1:
		text += " answers"
	default:
		text += " answer"
	}
	if x.Health != nil {
		text += " (no health check says so)"
	}
	return []string{text}
}

// conditions are what other hosts must do. The holders must have the VIP.
func (x *explainer) conditions(depends bool, holders []string) (list []string) {
	switch by := x.Elsewhere[x.p.Dst.Addr()]; {
	case by != "" && x.p.In != "":
		list = append(list, "another host sends its packets here, as "+by)
	case x.unanswered:
		list = append(list, fmt.Sprintf("another host sends its packets here, as this node does not answer %s for it",
			asks[x.key.Family()]))
	}
	if depends {
		list = append(list, "replies pass this node")
	}
	for _, h := range holders {
		list = append(list, fmt.Sprintf("%s has %s", h, x.p.Dst.Addr()))
	}
	return list
}

// share is the backend with its share, if it is known.
func (b *Backend) share() string {
	if b.Share == nil || *b.Share == 1 {
		return b.Address.String()
	}
	return fmt.Sprintf("%s (%.3g %%)", b.Address, 100**b.Share)
}

// sources says which source address the backends see.
func (x *explainer) sources() string {
	var as []string
	kept, masqueraded := false, false
	for _, b := range x.a.Backends {
		if !x.gets(&b) || b.Lost != "" {
			continue
		}
		kept, masqueraded = kept || !b.Masqueraded, masqueraded || b.Masqueraded
		if source := b.Source.String(); b.Source.IsValid() && !slices.Contains(as, source) {
			as = append(as, source)
		}
	}
	switch {
	case kept && masqueraded:
		return ", masqueraded to some"
	case kept:
		return ", source kept"
	case len(as) > 0:
		return ", masqueraded as " + sources.Few(as, 3)
	}
	return ", masqueraded"
}

// noBackend says why no backend can get the packet.
func (x *explainer) noBackend() string {
	what := x.key.String()
	if x.a.Service != "" {
		what = "service " + x.a.Service
	}
	if len(x.a.Backends) == 0 {
		return what + " has no backends here"
	}
	text := fmt.Sprintf("%s of %s: weight 0", sources.Few(addresses(x.a.Backends), 3), what)
	if i := slices.IndexFunc(x.a.Backends, func(b Backend) bool { return b.Health != "" }); i >= 0 {
		text += fmt.Sprintf(" (%s: %s)", x.a.Backends[i].Address.Addr(), x.a.Backends[i].Health)
	}
	return text
}

func addresses(all []Backend) []string {
	list := make([]string, len(all))
	for i := range all {
		list[i] = all[i].Address.String()
	}
	return list
}

// why says why a rule of ours, or the kernel, stops the packet.
func (x *explainer) why() string {
	rule := x.refusing()
	switch {
	case rule == "":
		return x.byKernel()
	case x.front != nil && x.verdict.Fate == packet.Dropped && x.front.Traits.Has(frontend.Restricted):
		return fmt.Sprintf("%s is in none of the loadBalancerSourceRanges of service %s", x.source(),
			x.service(x.front).DisplayName())
	case x.closed():
		return "service " + x.service(x.front).DisplayName() + " has no backend that gets new connections" + x.ill()
	case x.front == nil && x.Kernel.Guards(x.p.Dst.Addr()), x.front == nil && x.ours():
		return x.nothingThere()
	}
	return "of the rule " + rule + x.wanted()
}

// closed reports whether the packet is stopped because no backend of its front gets new connections. Health checks or
// orders may have taken out all of them: in mode iptables rules of two chains then refuse it.
func (x *explainer) closed() bool {
	if x.front == nil || x.verdict.Fate != packet.Rejected && x.verdict.Fate != packet.Dropped {
		return false
	}
	at, _, _ := strings.Cut(x.refusing(), ": ")
	names := x.Kernel.Names
	refusing := []string{"filter " + names.Chain(kernel.ChainServices),
		"filter " + names.Chain(kernel.ChainExternalServices)}
	return x.Fronts.Counts(x.front).Serving == 0 || slices.Contains(refusing, at)
}

// takenOut says what health checks or orders made of an endpoint that gets no connections here. It is "" if
// its state or the policy is the reason, or another front of the port uses it: such an endpoint may be up.
func (x *explainer) takenOut(t *frontend.Target) string {
	switch t.Reason {
	case frontend.EndpointVIP, frontend.Elsewhere, frontend.Terminating:
		return ""
	case frontend.Used:
		if !x.closed() || !slices.ContainsFunc(x.Fronts.Backends(x.front), func(b frontend.Backend) bool {
			return x.Fronts.Addr(int(x.front.Service), b) == t.Addr
		}) {
			return ""
		}
	}
	return x.Health[Endpoint{x.key.Proto, t.Addr}].Text
}

// ill says what health checks or orders made of the first endpoint that they took out, "" if there is none.
func (x *explainer) ill() string {
	for _, t := range x.Fronts.Targets(int(x.front.Service)) {
		if text := x.takenOut(&t); text != "" && t.Port == int(x.front.Port) &&
			kernel.FamilyOf(t.Addr.Addr()) == x.key.Family() {
			return fmt.Sprintf(" (%s: %s): see svcproxy health %s", t.Addr, text, x.service(x.front).DisplayName())
		}
	}
	return ""
}

// byKernel is the last decision that is neither a rule nor about a real server.
func (x *explainer) byKernel() string {
	for _, line := range slices.Backward(x.verdict.Path()) {
		if !strings.Contains(line, ": yes") && !strings.HasPrefix(line, "ipvs -") {
			return strings.TrimPrefix(line, "routing: ")
		}
	}
	return "the kernel drops it"
}

func (x *explainer) source() string {
	if x.p.Src.IsValid() {
		return x.p.Src.Addr().String()
	}
	return "the node"
}

// ours reports whether the destination is a VIP that the sources name.
func (x *explainer) ours() bool { return len(x.ports()) > 0 }

// ports lists what is served at the destination: "tcp 80".
func (x *explainer) ports() (list []string) {
	add := func(k kernel.VirtualKey) {
		text := fmt.Sprintf("%s %d", k.Proto, k.Port)
		if k.Addr == x.p.Dst.Addr() && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	for i := range x.Kernel.Virtuals {
		add(x.Kernel.Virtuals[i].Key)
	}
	if x.Fronts != nil {
		for i := range x.Fronts.Fronts {
			add(x.Fronts.Fronts[i].Key)
		}
	}
	return list
}

// nothingThere says that the port is not served, and which are.
func (x *explainer) nothingThere() string {
	if x.front != nil {
		if x.key.Mark() != 0 {
			return fmt.Sprintf("the kernel has no virtual server %s%s", x.key, x.wanted())
		}
		if x.p.State == "UNTRACKED" && len(x.Kernel.Virtuals) == 0 {
			return "rules take it out of connection tracking, and what serves it are rules of nat, which see tracked ones alone"
		}
		return fmt.Sprintf("the kernel has nothing at %s %s%s", x.key.Proto, x.key.AddrPort(), x.wanted())
	}
	if text := x.withheld(); text != "" {
		return text
	}
	text := fmt.Sprintf("no service has %s %s", x.key.Proto, x.key.AddrPort())
	if ports := x.ports(); len(ports) > 0 {
		text += fmt.Sprintf(" (served at %s: %s)", x.p.Dst.Addr(), sources.Few(ports, 4))
	}
	return text
}

// withheld says why a service that asks for the port does not get it.
func (x *explainer) withheld() string {
	if x.Fronts == nil {
		return ""
	}
	claim := sources.Claim{Addr: x.key.Addr, Port: x.key.Port, Protocol: sources.Protocol(x.key.Proto)}
	nodePort := sources.Claim{Port: claim.Port, Protocol: claim.Protocol}
	for _, s := range x.Fronts.Table.Services.All() {
		for _, w := range s.Withheld {
			if w.Claim == claim || w.Claim == nodePort && x.Fronts.Node.Has(claim.Addr) {
				return fmt.Sprintf("service %s asks for it and does not get it: %s", s.DisplayName(), w.Why)
			}
		}
	}
	return ""
}

// wanted names the service that the kernel should serve.
func (x *explainer) wanted() string {
	if x.front == nil {
		return ""
	}
	return fmt.Sprintf(", although service %s wants it: see svcproxy plan", x.service(x.front).DisplayName())
}
