package ipvs

import (
	"cmp"
	"iter"
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
	f        *frontend.Frontends
	fates    []fate // parallel to f.Fronts
	networks map[setOf]network
	tracked  map[answerer]int // for how many fronts that stay tracked and keep their clients' addresses
	others   bool             // a front stays tracked only for the endpoints of another one
}

// fate is what becomes of a front.
type fate uint8

const (
	masqueraded      fate = iota // always, so its replies go to an address of the node
	kept                         // tracked, with any endpoints
	keptForEndpoints             // tracked, but might be left out with other endpoints
	leftOut
)

// setOf names a set of a family.
type setOf struct {
	kernel.Family
	kernel.SetName
}

// network returns the network of the entries of a set. It has their least and their greatest address.
func (u *untracked) network(f kernel.Family, set kernel.SetName) network {
	return u.networks[setOf{f, set}]
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
	u := &untracked{f: f, fates: make([]fate, len(f.Fronts)), networks: map[setOf]network{}, tracked: map[answerer]int{}}
	local := map[kernel.Family]bool{} // the node's own workloads are recognised
	for _, family := range f.Config.Families() {
		local[family] = (&mode.Scope{Frontends: f, Config: c, Family: family}).Local() != ""
	}
	for i := range f.Fronts {
		x := &f.Fronts[i]
		switch m := masquerades(x, c.MasqueradeAll, local[x.Key.Family()]); {
		case m == allMasqueraded:
			u.fates[i] = masqueraded
		case m == someMasqueraded:
			u.keep(i, kept)
		case u.onNode(x):
			u.keep(i, keptForEndpoints)
		default:
			u.fates[i] = leftOut
		}
	}
	for again := len(u.tracked) > 0; again; {
		again = false
		for i, fate := range u.fates {
			if fate == leftOut && u.answers(&f.Fronts[i]) {
				u.keep(i, keptForEndpoints)
				u.others, again = true, true
			}
		}
	}
	return u
}

// keep notes that a front stays tracked.
func (u *untracked) keep(i int, why fate) {
	u.fates[i] = why
	u.count(&u.f.Fronts[i], 1)
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

// count adds to the fronts for which the endpoints of a front answer, through IPVS, and which stay tracked.
func (u *untracked) count(x *frontend.Front, n int) {
	for at := range u.answerers(x) {
		if u.tracked[at] += n; u.tracked[at] == 0 {
			delete(u.tracked, at)
		}
	}
}

// answerers gives the endpoints of a front whose replies pass IPVS.
func (u *untracked) answerers(x *frontend.Front) iter.Seq[answerer] {
	return func(yield func(answerer) bool) {
		if x.Traits.Has(frontend.Unmasqueraded) {
			return
		}
		for _, b := range u.f.Backends(x) {
			if !yield(answerer{u.f.Addr(int(x.Service), b), x.Key.Proto}) {
				return
			}
		}
	}
}

// answers reports whether an endpoint of a front also answers for one that stays tracked.
func (u *untracked) answers(x *frontend.Front) bool {
	for at := range u.answerers(x) {
		if u.tracked[at] > 0 {
			return true
		}
	}
	return false
}

// appendEntries appends the entries of a set of untracked services.
func (u *untracked) appendEntries(entries []kernel.Entry, set namedSet) []kernel.Entry {
	switch set.spec.Name {
	case kernel.TrackedEndpoints:
		if u.any(set.family, func(*frontend.Front) bool { return true }) {
			for i := range u.f.Table.Services.Len() {
				entries = appendHairpins(entries, u.f, i, set.family, set.name)
			}
		}
	case kernel.UntrackedReply:
		for _, fronts := range u.byService() {
			entries = u.appendReplies(entries, fronts, set.family, set.name)
		}
	default:
		for i, fate := range u.fates {
			if x := &u.f.Fronts[i]; fate == leftOut && x.Key.Family() == set.family {
				entries = append(entries, kernel.Entry{Set: set.name, Addr: x.Key.Addr, Proto: x.Key.Proto, Port: x.Key.Port})
			}
		}
	}
	return entries
}

// byService returns the indexes of the fronts that are left out, service by service.
func (u *untracked) byService() (all [][]int) {
	fronts := make([]int, 0, len(u.fates))
	for i, fate := range u.fates {
		if fate == leftOut {
			fronts = append(fronts, i)
		}
	}
	service := func(i int) int32 { return u.f.Fronts[i].Service }
	slices.SortStableFunc(fronts, func(a, b int) int { return cmp.Compare(service(a), service(b)) })
	for len(fronts) > 0 {
		n := 1
		for n < len(fronts) && service(fronts[n]) == service(fronts[0]) {
			n++
		}
		all, fronts = append(all, fronts[:n]), fronts[n:]
	}
	return all
}

// appendReplies appends the endpoints that answer for those fronts of a service that are left out, each once.
func (u *untracked) appendReplies(entries []kernel.Entry, fronts []int, family kernel.Family, set string) []kernel.Entry {
	from := len(entries)
	for _, i := range fronts {
		if x := &u.f.Fronts[i]; u.fates[i] == leftOut && x.Key.Family() == family {
			for at := range u.answerers(x) {
				entries = append(entries, at.entry(set))
			}
		}
	}
	return compact(entries, from)
}

// entry returns the entry of a set of replies.
func (a answerer) entry(set string) kernel.Entry {
	return kernel.Entry{Set: set, Addr: a.at.Addr(), Proto: a.proto, Port: a.at.Port()}
}

// replies reports whether untracked replies pass this node. Entries are not enough: a service that has lost its
// endpoints may have some that drain.
func (s *scope) replies() bool {
	return s.has(kernel.UntrackedReply) || s.untracked.any(s.Family, func(x *frontend.Front) bool { return !x.Traits.Has(frontend.Unmasqueraded) })
}

// any reports whether an untracked front of a family is such a one.
func (u *untracked) any(family kernel.Family, is func(*frontend.Front) bool) bool {
	for i, fate := range u.fates {
		if x := &u.f.Fronts[i]; fate == leftOut && x.Key.Family() == family && is(x) {
			return true
		}
	}
	return false
}

// appendHairpins appends the addresses of a service's entries of KUBE-LOOP-BACK, each once.
func appendHairpins(entries []kernel.Entry, f *frontend.Frontends, i int, family kernel.Family, set string) []kernel.Entry {
	from := len(entries)
	for _, h := range f.Hairpins(i) {
		if a := f.Addr(i, h.Backend).Addr(); kernel.FamilyOf(a) == family {
			entries = append(entries, kernel.Entry{Set: set, Addr: a})
		}
	}
	return compact(entries, from)
}

// compact sorts the entries from an index on, and has each once.
func compact(entries []kernel.Entry, from int) []kernel.Entry {
	sortEntries(entries[from:])
	return entries[:from+len(slices.Compact(entries[from:]))]
}

// raw are the chains of table raw. Without untracked services there are none: an empty table would have its hooks.
// OUTPUT needs no jump, since what IPVS sends on is untracked by then. Target CT is no verdict, so a rule of its own
// chain ends the way of a client's packets, which would be compared with the rules for replies.
func (s *scope) raw() []kernel.Chain {
	if s.untracked == nil || !s.has(kernel.Untracked) {
		return nil
	}
	notrack := s.Config.Names.Chain(kernel.ChainNotrack)
	vips := s.untracked.network(s.Family, kernel.Untracked)
	rules := s.but("src", vips.match("-d "), s.in(kernel.Untracked, "dst,dst"), "-g "+notrack)
	if s.replies() {
		rules = append(rules, s.but("dst", "", s.in(kernel.UntrackedReply, "src,src"), "-m addrtype ! --dst-type LOCAL -g "+notrack)...)
	}
	return []kernel.Chain{
		s.Chain("raw", "PREROUTING", s.Jump("untracked services", kernel.ChainUntracked)),
		s.Ours("raw", kernel.ChainUntracked, rules...),
		s.Ours("raw", kernel.ChainNotrack, "-j CT --notrack"),
	}
}

// but returns the rules with these matches and this target for packets whose client is no tracked endpoint. A look-up
// in a set costs 20 times as much as a comparison with a network, so the first rule is for clients outside of the network
// of all these endpoints.
func (s *scope) but(client, addrs, matches, target string) []string {
	if !s.has(kernel.TrackedEndpoints) {
		return []string{addrs + matches + target}
	}
	rules := []string{addrs + matches + s.notIn(kernel.TrackedEndpoints, client) + target}
	switch outside := s.untracked.network(s.Family, kernel.TrackedEndpoints); {
	case outside.Bits() <= 0:
	case client == "src":
		rules = slices.Insert(rules, 0, outside.match("! -s ")+addrs+matches+target)
	default:
		rules = slices.Insert(rules, 0, outside.match("! -d ")+addrs+matches+target)
	}
	return rules
}

// network is a network, or all addresses.
type network struct{ netip.Prefix }

// match returns the match of an option, "" for all addresses.
func (n network) match(option string) string {
	if n.Bits() <= 0 {
		return ""
	}
	return option + n.String() + " "
}

// networkOf returns a network with all addresses of sorted entries. Its length is a multiple of a byte, or two for
// IPv6, so that few changes of a table change it.
func networkOf(entries []kernel.Entry) network {
	if len(entries) == 0 {
		return network{}
	}
	first, last := entries[0].Addr, entries[len(entries)-1].Addr
	step := 8
	if first.Is6() {
		step = 16
	}
	for bits := first.BitLen() - step; bits > 0; bits -= step {
		if p := netip.PrefixFrom(first, bits).Masked(); p.Contains(last) {
			return network{p}
		}
	}
	return network{}
}

// notIn matches packets of which some parts are not in a set.
func (s *scope) notIn(set kernel.SetName, parts string) string {
	return "-m set ! --match-set " + s.Config.Names.Set(s.Family, set) + " " + parts + " "
}

// forwardUntracked is the rule of filter KUBE-FORWARD that accepts replies of untracked services, and no other
// untracked packets: those are others'.
func (s *scope) forwardUntracked() []string {
	if s.untracked == nil || !s.replies() {
		return nil
	}
	return []string{"-m conntrack --ctstate UNTRACKED " + s.in(kernel.UntrackedReply, "src,src") + "-j ACCEPT"}
}
