package explain

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
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

// jump returns the chain that a rule jumps to, "nat KUBE-SERVICES", and whether it takes
// every packet. It returns "" for other lines.
func jump(line string) (chain string, always bool) {
	at, rule, _ := strings.Cut(line, ": ")
	rule, why, applies := strings.Cut(rule, ": yes")
	target := kernel.Target(rule)
	if _, known := packet.Passes(target); !applies || known {
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

// served reports whether the packet comes to a virtual server of the kernel. In mode iptables
// rules of nat send it on before, through hook forward; a virtual server that mode ipvs left
// behind serves the connections that it has.
func (x *explainer) served() bool {
	if slices.ContainsFunc(x.verdict.Ways, func(w packet.Way) bool { return w.Chance > 0 }) {
		return false
	}
	_, found := kernel.FindVirtual(x.Kernel.Virtuals, x.key)
	return found
}

// sentOn reports whether rules of nat send the packet to backends elsewhere: it then passes
// hook forward and not input.
func (x *explainer) sentOn() bool {
	return !x.served() && slices.ContainsFunc(x.verdict.Ways, func(w packet.Way) bool {
		return x.local(w.Real.Addr()) == ""
	})
}
