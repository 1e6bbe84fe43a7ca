package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/trace"
	"github.com/svcproxy/svcproxy/sources"
)

// split divides the tracer's path at the virtual server. Its lines about real servers are
// left out: each has a step of its own.
func split(path []string) (before, after []string) {
	at := slices.IndexFunc(path, func(line string) bool { return strings.HasPrefix(line, "ipvs ") })
	if at < 0 {
		return path, nil
	}
	for _, line := range path[at:] {
		if !strings.HasPrefix(line, "ipvs -") {
			after = append(after, line)
		}
	}
	return path[:at], after
}

func (x *explainer) rules(lines []string) {
	for _, line := range telling(lines) {
		x.step(stageRule, "%s", line)
		x.a.Steps[len(x.a.Steps)-1].Wrong = refuses(line)
	}
}

// telling leaves out what other steps say, jumps that take every packet, and jumps to
// chains in which no rule applies.
func telling(lines []string) []string {
	var kept, entered []string // entered are the chains that lead to the last line in kept
	for _, line := range slices.Backward(lines) {
		at, _, _ := strings.Cut(line, ": ")
		chain, always := jump(line)
		switch leads := slices.Contains(entered, chain); {
		case strings.HasSuffix(line, "is an address of the node"), strings.HasPrefix(line, "no virtual server"),
			strings.Contains(line, ": : yes"):
		case chain == "", leads && !always:
			kept, entered = append(kept, line), []string{at}
		case leads:
			entered = append(entered, at)
		}
	}
	slices.Reverse(kept)
	return kept
}

// ends are the targets that do something to a packet. The others are chains.
var ends = []string{"ACCEPT", "DROP", "REJECT", "RETURN", "MARK", "MASQUERADE", "DNAT"}

// jump returns the chain that a rule jumps to, "nat KUBE-SERVICES", and whether it takes
// every packet. It returns "" for other lines.
func jump(line string) (chain string, always bool) {
	at, rule, _ := strings.Cut(line, ": ")
	rule, why, applies := strings.Cut(rule, ": yes")
	target := kernel.Target(rule)
	if !applies || target == "" || slices.Contains(ends, target) {
		return "", false
	}
	table, _, _ := strings.Cut(at, " ")
	return table + " " + target, why == ""
}

// refuses reports whether a line of the path is a rule that ends it.
func refuses(line string) bool {
	return strings.Contains(line, " -j DROP: yes") || strings.Contains(line, " -j REJECT")
}

// refusing returns the last rule that refuses, "" if none does.
func (x *explainer) refusing() string {
	path := x.verdict.Path()
	for _, line := range slices.Backward(path) {
		if refuses(line) {
			rule, _, _ := strings.Cut(line, ": yes")
			return rule
		}
	}
	return ""
}

// barriers names the base chains of other programs at a hook that stop the packet, or may.
func (x *explainer) barriers(hook string) {
	for _, b := range x.Kernel.Firewall {
		switch {
		case b.Hook != hook || !b.Sees(x.key.Family()):
		case b.Bars(x.key):
			x.barred(b, x.key.String())
		default:
			x.mayPass(b)
		}
	}
	p := seen{proto: x.p.Proto, src: x.p.Src, dst: x.p.Dst, in: x.p.In, state: x.state(x.p.Established),
		reply: x.p.Established, moved: !x.served() && hook == "input"}
	if g, r := x.gate(hook, x.key.String(), p); g.Name != "" {
		x.stopped(g, r, x.key.String())
	}
}

// state is what connection tracking says of the packet, or of a later one of its connection.
func (x *explainer) state(later bool) string {
	if later {
		return "ESTABLISHED"
	}
	return "NEW"
}

// stopped ends the way of a packet, or of its replies, at a rule of another program.
func (x *explainer) stopped(g kernel.Gate, r kernel.GateRule, what string) {
	x.wrong(stageFirewall, "%s at hook %s: %s", g.Name, g.Hook, ruleText(r))
	fate, word := Dropped, "dropped"
	if r.Verdict == "reject" {
		fate, word = Refused, "refused"
	}
	x.end(fate, fmt.Sprintf("%s by the firewall: the rule %s of %s at hook %s takes %s", word, ruleText(r), g.Name, g.Hook,
		what))
}

func ruleText(r kernel.GateRule) string {
	return strings.TrimSpace(r.Matches + " -j " + strings.ToUpper(r.Verdict))
}

func (x *explainer) mayPass(b kernel.Barrier) {
	x.step(stageFirewall, "%s at hook %s: may accept it (%s), else %s", b.Name, b.Hook,
		sources.Count(strings.Count(b.Accepts, "\n")+1, "rule"), b.Verdict)
}

// backendBarriers names those that stop the packet on its way to backends elsewhere. There
// its destination is the backend.
func (x *explainer) backendBarriers(hook string) {
	for _, b := range x.Kernel.Firewall {
		if b.Hook != hook || !b.Sees(x.key.Family()) {
			continue
		}
		as := b
		as.Hook = "prerouting" // there, kernel.Barrier compares the destination
		var barred []string
		passes := false
		for i := range x.a.Backends {
			to := &x.a.Backends[i]
			if !to.Usable || to.Lost != "" || x.local(to.Address.Addr()) != "" {
				continue
			}
			if as.Bars(kernel.VirtualAt(to.Address, x.key.Proto)) {
				to.Lost = fmt.Sprintf("no rule of %s at hook %s accepts what goes there", b.Name, hook)
				barred = append(barred, to.Address.String())
			} else {
				passes = true
			}
		}
		if len(barred) > 0 {
			x.wrong(stageFirewall, "%s at hook %s: no rule accepts what goes to %s, left to %s", b.Name, hook,
				sources.Few(barred, 3), b.Verdict)
		}
		if passes {
			x.mayPass(b)
		}
	}
	x.backendGates(hook)
}

// backendGates names the rules of other programs that stop the packet on its way to backends elsewhere.
func (x *explainer) backendGates(hook string) {
	in := ""
	if hook == "forward" {
		in = x.p.In
	}
	for i := range x.a.Backends {
		to := &x.a.Backends[i]
		if !to.Usable || to.Lost != "" || x.local(to.Address.Addr()) != "" {
			continue
		}
		p := seen{proto: x.p.Proto, src: x.p.Src, dst: to.Address, in: in, out: to.Link, state: x.state(false),
			moved: to.Forward != ""}
		if g, r := x.gate(hook, "what goes to "+to.Address.String(), p); g.Name != "" {
			to.Lost = fmt.Sprintf("the rule %s of %s at hook %s takes what goes there", ruleText(r), g.Name, hook)
			x.wrong(stageFirewall, "%s at hook %s: %s takes what goes to %s", g.Name, hook, ruleText(r), to.Address)
		}
	}
}

// replyGates names the rules of other programs that stop the replies of backends elsewhere.
func (x *explainer) replyGates(hook string) {
	for i := range x.a.Backends {
		from := &x.a.Backends[i]
		if !from.Usable || from.Lost != "" || from.Forward != "" || x.local(from.Address.Addr()) != "" {
			continue
		}
		p := seen{proto: x.p.Proto, src: from.Address, dst: x.p.Src, in: from.Link, state: x.state(true), reply: true,
			moved: from.Masqueraded || x.p.In == ""}
		if g, r := x.gate(hook, "replies of "+from.Address.String(), p); g.Name != "" {
			from.Lost = fmt.Sprintf("the rule %s of %s at hook %s takes its replies", ruleText(r), g.Name, hook)
			x.wrong(stageFirewall, "%s at hook %s: %s takes replies of %s", g.Name, hook, ruleText(r), from.Address)
		}
	}
}

// replyBarriers names those that stop the reply. In it the ports and addresses of the
// packet are not where the rules for the packet have them.
func (x *explainer) replyBarriers(hook string) {
	for _, b := range x.Kernel.Firewall {
		as := b
		as.Hook = "forward" // there, kernel.Barrier thinks of replies
		if b.Hook == hook && as.Bars(x.key) {
			x.barred(b, "replies of "+x.key.String())
		}
	}
}

func (x *explainer) barred(b kernel.Barrier, what string) {
	x.wrong(stageFirewall, "%s at hook %s: no rule accepts %s, left to %s", b.Name, b.Hook, what, b.Verdict)
	fate, word := Dropped, "dropped"
	if b.Verdict == "reject" {
		fate, word = Refused, "refused"
	}
	x.end(fate, fmt.Sprintf("%s by the firewall: no rule of %s at hook %s accepts %s", word, b.Name, b.Hook, what))
}

// leaving names base chains behind the virtual server: the packet passes them on its way
// to a backend elsewhere, and the reply on its way back.
func (x *explainer) leaving() {
	if x.verdict.Fate != trace.Balanced || !slices.ContainsFunc(x.a.Backends, func(b Backend) bool {
		return b.Usable && x.local(b.Address.Addr()) == ""
	}) {
		return
	}
	if x.served() || x.p.In == "" {
		x.backendBarriers("output")
	} else {
		x.backendBarriers("forward")
	}
	x.backendBarriers("postrouting")
	if !slices.ContainsFunc(x.a.Backends, func(b Backend) bool { return b.Usable && b.Forward == "" }) {
		return // replies go past this node
	}
	x.replyBarriers("prerouting")
	x.replyGates("prerouting")
	if x.p.In == "" {
		x.replyBarriers("input")
		x.replyGates("input")
		return
	}
	x.replyBarriers("forward")
	x.replyGates("forward")
	x.replyBarriers("postrouting")
}

// served reports whether the packet comes to a virtual server of the kernel. In mode iptables
// rules of nat send it on before, through hook forward; a virtual server that mode ipvs left
// behind serves the connections that it has.
func (x *explainer) served() bool {
	if slices.ContainsFunc(x.verdict.Ways, func(w trace.Way) bool { return w.Chance > 0 }) {
		return false
	}
	_, found := kernel.FindVirtual(x.Kernel.Virtuals, x.key)
	return found
}

// sentOn reports whether rules of nat send the packet to backends elsewhere: it then passes
// hook forward and not input.
func (x *explainer) sentOn() bool {
	return !x.served() && slices.ContainsFunc(x.verdict.Ways, func(w trace.Way) bool {
		return x.local(w.Real.Addr()) == ""
	})
}
