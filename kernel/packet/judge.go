package packet

import (
	"net/netip"
	"slices"
	"strings"
)

// outcome is one way in which a packet may leave a chain.
type outcome struct {
	Effect
	rule *Rule
	text string // "" for the policy, or a rule for every packet
	to   netip.AddrPort
}

// Judge returns what the chain does with a packet.
func (b *Base) Judge(v View) Ruling {
	w := judge{base: b, v: v}
	if w.walk("", b.chains[""], true, 0) {
		w.add(Effect(b.Policy), nil, "", true)
	}
	last := w.found[len(w.found)-1]
	alike := func(o outcome) bool {
		lost := func(e Effect) bool { return e == Drops || e == Rejects }
		return o.Effect == last.Effect || lost(o.Effect) && lost(last.Effect)
	}
	if last.Effect != Unclear && !slices.ContainsFunc(w.found, func(o outcome) bool { return !alike(o) }) {
		return Ruling{Effect: last.Effect, Rule: last.text, To: last.to, Left: w.v}
	}
	r := Ruling{Effect: Unclear, Doubts: w.doubts, Left: w.v}
	for _, o := range w.found {
		if o.Effect != Accepts && (r.May == "" || r.MayEnd == "" && o.text != "") {
			if r.May = o.Effect; o.text != "" {
				r.MayEnd = o.rule.matches()
			}
		}
	}
	return r
}

// matches is the text of a rule without its target.
func (r *Rule) matches() string {
	for _, option := range []string{"-j ", "-g "} {
		if i := strings.Index(" "+r.Text, " "+option); i >= 0 {
			return strings.TrimSpace(r.Text[:i])
		}
	}
	return r.Text
}

// judge walks a packet through the chains of a base chain and collects every way in which it may end.
type judge struct {
	base   *Base
	v      View
	found  []outcome
	doubts []string
	split  bool // some packets may have gone another way than those that are followed
	met    int
}

// mostMet is how many rules are followed. The kernel allows no loops, but many ways to one chain.
const mostMet = 10000

func (w *judge) add(e Effect, r *Rule, chain string, plain bool) {
	o := outcome{Effect: e, rule: r}
	if r != nil {
		o.to = r.to
		if !plain || !r.Unconditional() || e == Moves || e == Unclear {
			if o.text = r.Text; chain != "" {
				o.text += " in chain " + chain
			}
		}
	}
	w.found = append(w.found, o)
	if e == Unclear {
		w.doubt(r)
	}
}

func (w *judge) doubt(r *Rule) {
	if !slices.Contains(w.doubts, r.Text) {
		w.doubts = append(w.doubts, r.Text)
	}
}

// walk adds the outcomes of a chain, and reports whether the packet may return from it. plain: every packet gets here.
func (w *judge) walk(name string, rules []Rule, plain bool, depth int) (returns bool) {
	for i := range rules {
		r := &rules[i]
		a := r.Match(&w.v)
		if w.met++; w.met > mostMet || depth > maxDepth {
			w.add(Unclear, r, name, plain)
			return true
		}
		if a == No || r.Target == "" && r.doubt == "" {
			continue
		}
		before := len(w.found)
		w.split = w.split || a == Unknown && !slices.Contains(passing, r.Target)
		ends, back := w.target(r, a, name, plain, depth)
		returns = returns || back
		if len(w.found) > before && (a == Unknown || r.doubt != "") || a == Unknown && back {
			w.doubt(r)
		}
		if a == Yes && (ends || back) {
			return returns
		}
	}
	return true
}

// target adds the outcomes of a rule's target. ends: no packet goes on to the next rule; back: it may return from the
// chain.
func (w *judge) target(r *Rule, a Answer, name string, plain bool, depth int) (ends, back bool) {
	if rules, found := w.base.chains[r.Target]; found && r.Target != "" {
		back := w.walk(r.Target, rules, plain && r.Unconditional(), depth+1)
		return !back, back && r.leaves
	}
	switch r.Target {
	case "ACCEPT", "DROP", "REJECT":
		w.add(Effect(strings.ToLower(r.Target)), r, name, plain)
		return true, false
	case "MASQUERADE", "SNAT":
		w.add(Accepts, r, name, plain)
		return true, false
	case "DNAT", "REDIRECT", "TPROXY":
		if r.Target != "TPROXY" && w.v.ctState() != "NEW" {
			return false, false // rules of nat are not asked
		}
		w.add(Moves, r, name, plain)
		return true, false
	case "RETURN":
		return false, true
	case "MARK", "CONNMARK":
		if r.Target == "MARK" && !w.split && r.doubt == "" && w.v.Unknown&Mark == 0 {
			w.v.Mark = w.v.Mark&^r.mask ^ r.value
		} else {
			w.v.Unknown |= Mark
		}
		return false, false
	case "CT", "NOTRACK":
		if r.untracks && w.split {
			w.v.Unknown |= Tracking
		} else if r.untracks {
			w.v.State = "UNTRACKED"
		}
		return false, false
	}
	if slices.Contains(passing, r.Target) {
		return false, false
	}
	if rules, found := w.base.node.rules(w.v.family(), w.base.Table(), r.Target); found {
		return !w.ours(r.Target, rules, plain, depth), false
	}
	w.add(Unclear, r, name, plain)
	return true, false
}

// ours walks a packet through a chain of ours and reports whether it may return. Only what the chain accepts counts:
// what it drops is followed by Trace.
func (w *judge) ours(name string, rules []Rule, plain bool, depth int) (returns bool) {
	sub := judge{base: w.base, v: w.v, split: w.split, met: w.met}
	returns = sub.walk(name, rules, false, depth+1)
	w.v, w.split, w.met = sub.v, sub.split, sub.met
	for _, o := range sub.found {
		if o.Effect == Accepts || o.Effect == Moves {
			w.add(Accepts, o.rule, name, false)
		} else {
			returns = true
		}
	}
	return returns
}
