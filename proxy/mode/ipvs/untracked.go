package ipvs

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// Connection tracking can leave out a front whose clients keep their addresses. Table raw has a rule for packets to
// such fronts, and one for replies of their endpoints. What may be masqueraded stays tracked, in both directions:
//
//   - The node's own packets pass no rule of ours in table raw. Replies to them, and to all that was masqueraded, go to
//     an address of the node, which the rule for replies leaves alone.
//   - An endpoint on this node, or on an unknown one, may be balanced to itself. Both rules leave alone what comes from
//     it or goes to it as a client.
//
// The second rule cannot tell for which front a reply is. So a front stays tracked if one of its endpoints also answers
// for a front that keeps its clients' addresses and is tracked.

// untracked knows which fronts connection tracking leaves out.
type untracked struct {
	f      *frontend.Frontends
	fronts []bool // parallel to f.Fronts
}

// answerer is where replies come from.
type answerer struct {
	at    netip.AddrPort
	proto kernel.Proto
}

// masquerading says which packets from other hosts to a front are masqueraded, without hairpins.
type masquerading uint8

const (
	noneMasqueraded masquerading = iota
	someMasqueraded              // by their source, or nothing is known of them
	allMasqueraded
)

// untrackedOf finds the fronts that connection tracking leaves out.
func untrackedOf(f *frontend.Frontends, c *mode.Config) *untracked {
	u := &untracked{f: f, fronts: make([]bool, len(f.Fronts))}
	local := map[kernel.Family]bool{} // the node's own workloads are recognised
	for _, family := range f.Config.Families() {
		local[family] = (&mode.Scope{Frontends: f, Config: c, Family: family}).Local() != ""
	}
	tracked := map[answerer]bool{} // for fronts that stay tracked and keep their clients' addresses
	for i := range f.Fronts {
		x := &f.Fronts[i]
		switch m := masquerades(x, c.MasqueradeAll, local[x.Key.Family()]); {
		case m == allMasqueraded:
		case m == noneMasqueraded && !u.onNode(x):
			u.fronts[i] = true
		default:
			u.track(x, tracked)
		}
	}
	for again := len(tracked) > 0; again; {
		again = false
		for i, left := range u.fronts {
			if x := &f.Fronts[i]; left && u.answers(x, tracked) {
				u.fronts[i], again = false, true
				u.track(x, tracked)
			}
		}
	}
	return u
}

// masquerades repeats what nat KUBE-SERVICES decides. The rules of firewall marks are other programs'.
func masquerades(x *frontend.Front, all, local bool) masquerading {
	m := noneMasqueraded
	is := func(more masquerading) { m = max(m, more) }
	switch {
	case x.Traits.Has(frontend.Marked):
		return someMasqueraded
	case x.Traits.Has(frontend.Unmasqueraded):
		return noneMasqueraded
	}
	if x.Traits.Has(frontend.ClusterIP) {
		switch {
		case all:
			is(allMasqueraded)
		case local:
			is(someMasqueraded)
		}
	}
	switch outer := x.Traits&(frontend.ExternalIP|frontend.LoadBalancer|frontend.NodePort) != 0; {
	case outer && !x.Traits.Has(frontend.ExternalLocal):
		is(allMasqueraded)
	case x.Traits.Has(frontend.NodePort): // a bitmap does not tell whose address it is
		is(someMasqueraded)
	}
	return m
}

// onNode reports whether an endpoint of a front has an address of the node. Its replies pass OUTPUT.
func (u *untracked) onNode(x *frontend.Front) bool {
	return slices.ContainsFunc(u.f.Backends(x), func(b frontend.Backend) bool {
		return u.f.Node.Has(u.f.Addr(int(x.Service), b).Addr())
	})
}

// track notes the endpoints that answer for a front through IPVS.
func (u *untracked) track(x *frontend.Front, tracked map[answerer]bool) {
	if x.Traits.Has(frontend.Unmasqueraded) {
		return
	}
	for _, b := range u.f.Backends(x) {
		tracked[answerer{u.f.Addr(int(x.Service), b), x.Key.Proto}] = true
	}
}

// answers reports whether one of the noted endpoints answers for a front.
func (u *untracked) answers(x *frontend.Front, tracked map[answerer]bool) bool {
	return !x.Traits.Has(frontend.Unmasqueraded) && slices.ContainsFunc(u.f.Backends(x), func(b frontend.Backend) bool {
		return tracked[answerer{u.f.Addr(int(x.Service), b), x.Key.Proto}]
	})
}

// appendEntries appends the entries of a set of untracked services.
func (u *untracked) appendEntries(entries []kernel.Entry, set namedSet) []kernel.Entry {
	if set.spec.Name == kernel.TrackedEndpoints {
		return u.appendHairpins(entries, set)
	}
	for i, left := range u.fronts {
		x := &u.f.Fronts[i]
		switch {
		case !left || x.Key.Family() != set.family:
		case set.spec.Name == kernel.Untracked:
			entries = append(entries, kernel.Entry{Set: set.name, Addr: x.Key.Addr.Addr(), Proto: x.Key.Proto, Port: x.Key.Addr.Port()})
		case !x.Traits.Has(frontend.Unmasqueraded): // else replies go past this node
			for _, b := range u.f.Backends(x) {
				at := u.f.Addr(int(x.Service), b)
				entries = append(entries, kernel.Entry{Set: set.name, Addr: at.Addr(), Proto: x.Key.Proto, Port: at.Port()})
			}
		}
	}
	return entries
}

// replies reports whether replies of a family pass this node. Rules do not ask for entries: a service that has lost its
// endpoints may have some that drain.
func (u *untracked) replies(family kernel.Family) bool {
	return u.any(family, func(x *frontend.Front) bool { return !x.Traits.Has(frontend.Unmasqueraded) })
}

// any reports whether an untracked front of a family is such a one.
func (u *untracked) any(family kernel.Family, is func(*frontend.Front) bool) bool {
	for i, left := range u.fronts {
		if x := &u.f.Fronts[i]; left && x.Key.Family() == family && is(x) {
			return true
		}
	}
	return false
}

// appendHairpins appends the addresses of KUBE-LOOP-BACK, if there are untracked fronts in the family.
func (u *untracked) appendHairpins(entries []kernel.Entry, set namedSet) []kernel.Entry {
	if !u.any(set.family, func(*frontend.Front) bool { return true }) {
		return entries
	}
	for i := range u.f.Table.Services.Len() {
		for _, h := range u.f.Hairpins(i) {
			if a := u.f.Addr(i, h.Backend).Addr(); kernel.FamilyOf(a) == set.family {
				entries = append(entries, kernel.Entry{Set: set.name, Addr: a})
			}
		}
	}
	return entries
}

// raw are the chains of table raw. Without untracked services there are none: an empty table would have its hooks.
// OUTPUT needs no jump, since what IPVS sends on is untracked by then. Target CT is no verdict, so a rule of its own
// chain ends the way of a client's packets, which would be compared with the rule for replies.
func (s *scope) raw() []kernel.Chain {
	if s.untracked == nil || !s.has(kernel.Untracked) {
		return nil
	}
	from, to := "", ""
	if s.has(kernel.TrackedEndpoints) {
		from, to = s.notIn(kernel.TrackedEndpoints, "src"), s.notIn(kernel.TrackedEndpoints, "dst")
	}
	rules := []string{s.in(kernel.Untracked, "dst,dst") + from + "-g " + s.Config.Names.Chain(kernel.ChainNotrack)}
	if s.untracked.replies(s.Family) {
		rules = append(rules, s.in(kernel.UntrackedReply, "src,src")+to+"-m addrtype ! --dst-type LOCAL "+s.To(kernel.ChainNotrack))
	}
	return []kernel.Chain{
		s.Chain("raw", "PREROUTING", s.Jump("untracked services", kernel.ChainUntracked)),
		s.Ours("raw", kernel.ChainUntracked, rules...),
		s.Ours("raw", kernel.ChainNotrack, "-j CT --notrack"),
	}
}

// notIn matches packets of which some parts are not in a set.
func (s *scope) notIn(set kernel.SetName, parts string) string {
	return "-m set ! --match-set " + s.Config.Names.Set(s.Family, set) + " " + parts + " "
}

// forwardUntracked is the rule of filter KUBE-FORWARD that accepts replies of untracked services, and no other
// untracked packets: those are others'.
func (s *scope) forwardUntracked() []string {
	if s.untracked == nil || !s.untracked.replies(s.Family) {
		return nil
	}
	return []string{"-m conntrack --ctstate UNTRACKED " + s.in(kernel.UntrackedReply, "src,src") + "-j ACCEPT"}
}
