package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// ownership says whether a virtual server is owned. One of these is enough:
//
//   - the ownership set of its family has it, also that of the other back end,
//   - the last reading owned it,
//   - the record on disk has it unchanged,
//   - the relay of this process serves it.
//
// Keys must be asked for in ascending order.
type ownership struct {
	relayed bool
	inIPVS  keyCursor[kernel.VirtualKey] // not the relay's
	entries keyCursor[kernel.Entry]      // of both families: IPv4 addresses sort before IPv6
	more    keyCursor[kernel.Entry]      // of IPv6
	others  [2]keyCursor[kernel.Entry]   // of the sets in the other back end, by family
	memory  keyCursor[kernel.VirtualKey] // of the last reading
	record  keyCursor[kernel.Virtual]    // on disk
	reals   kernel.Reals
	digests []kernel.VirtualDigest
}

func ownershipOf(o *kernel.Observed, owned []kernel.VirtualKey) ownership {
	return ownership{
		relayed: o.Relayed, inIPVS: keyCursor[kernel.VirtualKey]{rest: o.InIPVS, compare: kernel.CompareKeys},
		entries: keyCursor[kernel.Entry]{runs: ownedEntries(o, kernel.IPv4).Runs(), compare: compareEntryKey},
		more:    keyCursor[kernel.Entry]{runs: ownedEntries(o, kernel.IPv6).Runs(), compare: compareEntryKey},
		others: [2]keyCursor[kernel.Entry]{
			{runs: otherEntries(o, kernel.IPv4).Runs(), compare: compareEntryKey},
			{runs: otherEntries(o, kernel.IPv6).Runs(), compare: compareEntryKey},
		},
		memory:  keyCursor[kernel.VirtualKey]{rest: owned, compare: kernel.CompareKeys},
		record:  virtualCursor(o.Record.Made),
		reals:   o.Reals,
		digests: o.Record.Digests,
	}
}

func virtualCursor(virtuals []kernel.Virtual) keyCursor[kernel.Virtual] {
	return keyCursor[kernel.Virtual]{rest: virtuals, compare: func(v *kernel.Virtual, k *kernel.VirtualKey) int {
		return kernel.CompareKeys(&v.Key, k)
	}}
}

func (w *ownership) has(v *kernel.Virtual) bool {
	k := &v.Key
	if w.relayed && w.inIPVS.find(k) == nil {
		return true
	}
	entries, others := &w.entries, &w.others[0]
	if k.Family() == kernel.IPv6 {
		entries, others = &w.more, &w.others[1]
	}
	return entries.find(k) != nil || others.find(k) != nil || w.memory.find(k) != nil ||
		attests(w.record.find(k), v, w.reals, w.digests)
}

// Owned lists the virtual servers that a reading owns, sorted. before are those of the reading before: a set that was
// emptied and cannot be filled again disowns no existing virtual server.
func Owned(o *kernel.Observed, before []kernel.VirtualKey) []kernel.VirtualKey {
	v4, v6 := ownedEntries(o, kernel.IPv4), ownedEntries(o, kernel.IPv6)
	keys := make([]kernel.VirtualKey, 0, v4.Len()+v6.Len())
	for _, entries := range [...]kernel.Entries{v4, v6, otherEntries(o, kernel.IPv4), otherEntries(o, kernel.IPv6)} {
		for e := range entries.All() {
			keys = append(keys, e.Key())
		}
	}
	for _, k := range before {
		if hasVirtual(&o.State, k) {
			keys = append(keys, k)
		}
	}
	if o.Relayed {
		own := ownershipOf(o, before)
		for i := range o.Virtuals {
			if own.has(&o.Virtuals[i]) {
				keys = append(keys, o.Virtuals[i].Key)
			}
		}
	}
	for i := range o.Record.Made {
		made := &o.Record.Made[i]
		if j, found := slices.BinarySearchFunc(o.Virtuals, *made, kernel.Virtual.Compare); found &&
			attests(made, &o.Virtuals[j], o.Reals, o.Record.Digests) {
			keys = append(keys, made.Key)
		}
	}
	kernel.SortFunc(keys, kernel.VirtualKey.Compare)
	return slices.Compact(keys)
}

func hasVirtual(s *kernel.State, k kernel.VirtualKey) bool {
	_, found := kernel.FindVirtual(s.Virtuals, k)
	return found
}

// ownedEntries returns the entries of a family's ownership set.
func ownedEntries(o *kernel.Observed, f kernel.Family) kernel.Entries {
	return owning(o.Names, f, o.Sets, &o.Entries)
}

// otherEntries returns those of the ownership set in the other back end.
func otherEntries(o *kernel.Observed, f kernel.Family) kernel.Entries {
	return owning(o.Names, f, o.OtherSets, &o.OtherEntries)
}

func owning(n kernel.Names, f kernel.Family, sets []kernel.Set, entries *kernel.Entries) kernel.Entries {
	for i := range sets {
		if n.IsSet(sets[i].Name, f, kernel.VirtualServer) {
			return entries.Of(sets[i].Name)
		}
	}
	return kernel.Entries{}
}

// kubeProxySets lists kube-proxy's own sets that name its virtual servers.
var kubeProxySets = []kernel.SetName{
	kernel.ClusterIP, kernel.ExternalIP, kernel.ExternalIPLocal, kernel.LoadBalancer,
	kernel.NodePortTCP, kernel.NodePortUDP, kernel.NodePortSCTP,
}

// leftByKubeProxy says whether kube-proxy's sets name a virtual server, on a node where
// our ownership set was never created. An empty ownership set proves nothing: our
// NODE-PORT sets may have the number of a port that another program serves.
func leftByKubeProxy(o *kernel.Observed, k kernel.VirtualKey) bool {
	if hasOwnershipSet(o, k.Family()) {
		return false
	}
	for _, name := range kubeProxySets {
		set := o.Names.Set(k.Family(), name)
		_, spec, _ := o.Names.SetSpec(set)
		e := kernel.Entry{Set: set, Addr: k.Addr, Proto: k.Proto, Port: k.Port}
		if spec.Type == kernel.BitmapPort {
			if spec.Proto != k.Proto || !o.Node.Has(e.Addr) {
				continue
			}
			e = kernel.Entry{Set: set, Port: e.Port}
		}
		if o.Entries.Has(e) || o.OtherEntries.Has(e) {
			return true
		}
	}
	return false
}

func hasOwnershipSet(o *kernel.Observed, f kernel.Family) bool {
	owns := func(s kernel.Set) bool { return o.Names.IsSet(s.Name, f, kernel.VirtualServer) }
	return slices.ContainsFunc(o.Sets, owns) || slices.ContainsFunc(o.OtherSets, owns)
}

// without drops from a wanted state everything that concerns virtual servers of other
// programs: no object of ours may touch their packets.
func without(s kernel.State, conflicts []kernel.Conflict, names kernel.Names) kernel.State {
	foreign := func(k kernel.VirtualKey) bool {
		_, found := slices.BinarySearchFunc(conflicts, k, func(c kernel.Conflict, k kernel.VirtualKey) int {
			return c.Want.Key.Compare(k)
		})
		return found
	}
	s.Virtuals = keep(s.Virtuals, func(v kernel.Virtual) bool { return !foreign(v.Key) })
	s.Reals = s.Reals.Where(func(r *kernel.Real) bool { return !foreign(r.Key.Virtual) })

	type portKey struct {
		family kernel.Family
		proto  kernel.Proto
		port   uint16
	}
	portOf := func(k kernel.VirtualKey) portKey { return portKey{k.Family(), k.Proto, k.Port} }
	ports := make(map[portKey]bool) // that an owned virtual server still has
	served := make(map[string]bool) // addresses, likewise
	dropped := make(map[portKey]bool)
	for _, v := range s.Virtuals {
		ports[portOf(v.Key)] = true
		served[v.Key.Addr.String()] = true
	}
	for _, c := range conflicts {
		dropped[portOf(c.Want.Key)] = true
	}
	s.Entries = s.Entries.Where(func(e kernel.Entry) bool {
		family, spec, _ := names.SetSpec(e.Set)
		switch {
		case spec.Name == kernel.LoopBack:
			return true // about endpoints
		case spec.Name == kernel.IPVSIPs:
			return served[e.Addr.String()]
		case spec.Type == kernel.BitmapPort:
			k := portKey{family, spec.Proto, e.Port}
			return spec.Name == kernel.HealthCheckNodePort || ports[k] || !dropped[k]
		}
		return !foreign(e.Key())
	})
	s.Addrs = keep(s.Addrs, func(a kernel.Addr) bool { return served[a.Addr.String()] })
	s.Routes = keep(s.Routes, func(r kernel.Route) bool { return served[r.Addr.String()] })
	s.Announcements = keep(s.Announcements, func(a kernel.Announcement) bool {
		return !slices.ContainsFunc(conflicts, func(c kernel.Conflict) bool { return c.Want.Key.Addr == a.Addr })
	})
	s.Neighbors = keep(s.Neighbors, func(n kernel.Neighbor) bool { return served[n.Addr.String()] })
	s.Chains = slices.Clone(s.Chains)
	for i := range s.Chains {
		if c := &s.Chains[i]; c.Name == names.Chain(kernel.ChainIPVSOutFilter) ||
			c.Name == names.Chain(kernel.ChainIPVSFilter) {
			c.Rules = withoutRules(c.Family, c.Rules, conflicts)
		}
	}
	return s
}

// withoutRules drops the rules that name a virtual server in conflict. Only
// KUBE-IPVS-OUT-FILTER and KUBE-IPVS-FILTER have such rules; the others match on sets. The rule of a mark is alike in
// both families.
func withoutRules(f kernel.Family, rules string, conflicts []kernel.Conflict) string {
	kept := keep(strings.Split(rules, "\n"), func(rule string) bool {
		return !slices.ContainsFunc(conflicts, func(c kernel.Conflict) bool {
			k := c.Want.Key
			if k.Mark() != 0 && k.Family() == f && rule == kernel.MarkRule(k) {
				return true
			}
			return strings.Contains(rule+" ", fmt.Sprintf(" --vproto %d --vaddr %s --vport %d ", k.Proto, k.Addr, k.Port))
		})
	})
	return strings.Join(kept, "\n")
}

// keep copies the elements that pass, and leaves the original unchanged.
func keep[T any](s []T, pass func(T) bool) []T {
	kept := make([]T, 0, len(s))
	for _, v := range s {
		if pass(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
