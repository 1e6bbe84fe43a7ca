package kernel

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// ownership answers, for keys in ascending order, whether a virtual server is
// ours: it is in the ownership set of its family, the last reading held it, or the
// record on disk has it as it is.
type ownership struct {
	entries keyCursor[Entry]      // of both families: IPv4 addresses sort before IPv6
	more    keyCursor[Entry]      // of IPv6
	memory  keyCursor[VirtualKey] // of the last reading
	record  keyCursor[Virtual]    // on disk
	reals   []Real
}

func (o *Observed) ownership() ownership {
	return ownership{
		entries: keyCursor[Entry]{rest: o.owned(IPv4), compare: compareEntryKey},
		more:    keyCursor[Entry]{rest: o.owned(IPv6), compare: compareEntryKey},
		memory:  keyCursor[VirtualKey]{rest: o.Owned, compare: compareKey},
		record:  virtualCursor(o.Record.Made),
		reals:   o.Reals,
	}
}

func virtualCursor(virtuals []Virtual) keyCursor[Virtual] {
	return keyCursor[Virtual]{rest: virtuals, compare: func(v *Virtual, k *VirtualKey) int { return compareKey(&v.Key, k) }}
}

func (w *ownership) has(v *Virtual) bool {
	k := &v.Key
	entries := &w.entries
	if k.Family() == IPv6 {
		entries = &w.more
	}
	return entries.find(k) != nil || w.memory.find(k) != nil || attests(w.record.find(k), v, w.reals)
}

// Ours lists the virtual servers that are ours by this reading, sorted: what
// the next one is told in Owned. A set that was emptied and could not be filled
// again disowns no virtual server that is still there.
func (o *Observed) Ours() []VirtualKey {
	v4, v6 := o.owned(IPv4), o.owned(IPv6)
	keys := make([]VirtualKey, 0, len(v4)+len(v6))
	for _, e := range v4 {
		keys = append(keys, e.Key())
	}
	for _, e := range v6 {
		keys = append(keys, e.Key())
	}
	for _, k := range o.Owned {
		if o.hasVirtual(k) {
			keys = append(keys, k)
		}
	}
	for i := range o.Record.Made {
		made := &o.Record.Made[i]
		if j, found := slices.BinarySearchFunc(o.Virtuals, *made, compareVirtual); found && attests(made, &o.Virtuals[j], o.Reals) {
			keys = append(keys, made.Key)
		}
	}
	sortUnique(&keys, VirtualKey.Compare)
	return keys
}

func (o *Observed) hasVirtual(k VirtualKey) bool {
	_, found := slices.BinarySearchFunc(o.Virtuals, k, func(v Virtual, k VirtualKey) int { return v.Key.Compare(k) })
	return found
}

// owned is the content of a family's ownership set.
func (o *Observed) owned(f Family) []Entry {
	for i := range o.Sets {
		if o.Names.isSet(o.Sets[i].Name, f, VirtualServer) {
			return o.EntriesOf(o.Sets[i].Name)
		}
	}
	return nil
}

// EntriesOf is the part of the sorted entries that belongs to a set.
func (s *State) EntriesOf(set string) []Entry {
	start, end := spanOf(s.Entries, set)
	return s.Entries[start:end]
}

// spanOf is where in sorted entries those of a set are.
func spanOf(entries []Entry, set string) (start, end int) {
	start = sort.Search(len(entries), func(i int) bool { return entries[i].Set >= set })
	end = start + sort.Search(len(entries)-start, func(i int) bool { return entries[start+i].Set > set })
	return start, end
}

// HasSet says whether a set of this name exists.
func (s *State) HasSet(name string) bool {
	_, ok := slices.BinarySearchFunc(s.Sets, name, func(t Set, name string) int { return strings.Compare(t.Name, name) })
	return ok
}

// kubeProxySets are kube-proxy's own sets that name its virtual servers.
var kubeProxySets = []SetName{
	ClusterIP, ExternalIP, ExternalIPLocal, LoadBalancer,
	NodePortTCP, NodePortUDP, NodePortSCTP,
}

// leftByKubeProxy says whether a virtual server is named by kube-proxy's sets
// on a node where our own ownership set was never made. One that is only empty
// proves nothing: our own NODE-PORT sets, too, can have the number of a port that
// somebody else serves.
func (o *Observed) leftByKubeProxy(k VirtualKey) bool {
	if o.hasOwnershipSet(k.Family()) {
		return false
	}
	for _, name := range kubeProxySets {
		set := o.Names.Set(k.Family(), name)
		_, spec, _ := o.Names.SetSpec(set)
		e := Entry{Set: set, Addr: k.Addr.Addr(), Proto: k.Proto, Port: k.Addr.Port()}
		if spec.Type == BitmapPort {
			if spec.Proto != k.Proto || !o.Node.Has(e.Addr) {
				continue
			}
			e = Entry{Set: set, Port: e.Port}
		}
		if _, found := slices.BinarySearchFunc(o.Entries, e, Entry.Compare); found {
			return true
		}
	}
	return false
}

func (o *Observed) hasOwnershipSet(f Family) bool {
	return slices.ContainsFunc(o.Sets, func(s Set) bool { return o.Names.isSet(s.Name, f, VirtualServer) })
}

// without leaves out of a wanted state what concerns virtual servers that are
// somebody else's: nothing of ours must touch their packets.
func (s State) without(conflicts []Conflict, names Names) State {
	foreign := func(k VirtualKey) bool {
		_, found := slices.BinarySearchFunc(conflicts, k, func(c Conflict, k VirtualKey) int { return c.Want.Key.Compare(k) })
		return found
	}
	s.Virtuals = keep(s.Virtuals, func(v Virtual) bool { return !foreign(v.Key) })
	s.Reals = keep(s.Reals, func(r Real) bool { return !foreign(r.Key.Virtual) })

	type portKey struct {
		family Family
		proto  Proto
		port   uint16
	}
	portOf := func(k VirtualKey) portKey { return portKey{k.Family(), k.Proto, k.Addr.Port()} }
	ports := make(map[portKey]bool) // that some virtual server of ours still has
	served := make(map[string]bool) // addresses, likewise
	dropped := make(map[portKey]bool)
	for _, v := range s.Virtuals {
		ports[portOf(v.Key)] = true
		served[v.Key.Addr.Addr().String()] = true
	}
	for _, c := range conflicts {
		dropped[portOf(c.Want.Key)] = true
	}
	s.Entries = keep(s.Entries, func(e Entry) bool {
		family, spec, _ := names.SetSpec(e.Set)
		switch {
		case spec.Name == LoopBack:
			return true // about endpoints
		case spec.Name == IPVSIPs:
			return served[e.Addr.String()]
		case spec.Type == BitmapPort:
			k := portKey{family, spec.Proto, e.Port}
			return spec.Name == HealthCheckNodePort || ports[k] || !dropped[k]
		}
		return !foreign(e.Key())
	})
	s.Addrs = keep(s.Addrs, func(a Addr) bool { return served[a.Addr.String()] })
	s.Routes = keep(s.Routes, func(r Route) bool { return served[r.Addr.String()] })
	s.Neighbors = keep(s.Neighbors, func(n Neighbor) bool { return served[n.Addr.String()] })
	s.Chains = slices.Clone(s.Chains)
	for i := range s.Chains {
		if c := &s.Chains[i]; c.Name == names.Chain(ChainIPVSOutFilter) {
			c.Rules = withoutRules(c.Rules, conflicts)
		}
	}
	return s
}

// withoutRules leaves out the rules that name a virtual server in conflict. Only
// KUBE-IPVS-OUT-FILTER has such rules; the others go by the sets.
func withoutRules(rules string, conflicts []Conflict) string {
	kept := keep(strings.Split(rules, "\n"), func(rule string) bool {
		return !slices.ContainsFunc(conflicts, func(c Conflict) bool {
			k := c.Want.Key
			return strings.Contains(rule+" ", fmt.Sprintf(" --vproto %d --vaddr %s --vport %d ", k.Proto, k.Addr.Addr(), k.Addr.Port()))
		})
	})
	return strings.Join(kept, "\n")
}

// keep copies what passes, leaving the original as it is.
func keep[T any](s []T, pass func(T) bool) []T {
	kept := make([]T, 0, len(s))
	for _, v := range s {
		if pass(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
