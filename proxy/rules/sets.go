package rules

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// membership says which fronts a set is made of: those with all of some traits and none of others, of
// one protocol or, if it is 0, of any.
type membership struct {
	all, none traits
	proto     kernel.Proto
}

// members are the sets made of fronts. KUBE-LOOP-BACK is made of endpoints, and
// KUBE-HEALTH-CHECK-NODE-PORT of services.
var members = map[kernel.SetName]membership{
	kernel.ClusterIP:              {all: clusterIP},
	kernel.ExternalIP:             {all: externalIP, none: local},
	kernel.ExternalIPLocal:        {all: externalIP | local},
	kernel.LoadBalancer:           {all: loadBalancer},
	kernel.LoadBalancerLocal:      {all: loadBalancer | local},
	kernel.LoadBalancerFW:         {all: restricted},
	kernel.LoadBalancerSourceIP:   {all: restricted | nodeAllowed},
	kernel.LoadBalancerSourceCIDR: {all: restricted},
	kernel.NodePortTCP:            {all: nodePort, proto: kernel.TCP},
	kernel.NodePortLocalTCP:       {all: nodePort | local, proto: kernel.TCP},
	kernel.NodePortUDP:            {all: nodePort, proto: kernel.UDP},
	kernel.NodePortLocalUDP:       {all: nodePort | local, proto: kernel.UDP},
	kernel.NodePortSCTP:           {all: nodePort, proto: kernel.SCTP},
	kernel.NodePortLocalSCTP:      {all: nodePort | local, proto: kernel.SCTP},
	kernel.IPVSIPs:                {all: bound},
	kernel.VirtualServer:          {},
}

func (m membership) takes(f *front) bool {
	return f.traits&m.all == m.all && f.traits&m.none == 0 && (m.proto == 0 || m.proto == f.key.Proto)
}

// namedSet is one of our sets with its full name.
type namedSet struct {
	name   string
	family kernel.Family
	spec   kernel.SetSpec
}

// namedSets are all our sets in the order of their full names, which is that of a State.
func (c Config) namedSets() []namedSet {
	families := c.families()
	sets := make([]namedSet, 0, len(families)*len(kernel.SetSpecs))
	for _, f := range families {
		for _, spec := range kernel.SetSpecs {
			sets = append(sets, namedSet{c.Names.Set(f, spec.Name), f, spec})
		}
	}
	slices.SortFunc(sets, func(a, b namedSet) int { return strings.Compare(a.name, b.name) })
	return sets
}

// sets are the sets of a state and their entries, sorted. All sets exist always, sized for what they hold.
// filled has the full names of those that have entries or keep some, for which there are rules.
func (l *listing) sets() (sets []kernel.Set, entries []kernel.Entry, filled map[string]bool) {
	filled = make(map[string]bool)
	for _, name := range l.config.Occupied {
		filled[name] = true
	}
	slices.SortFunc(l.loops, kernel.Entry.Compare)

	named := l.config.namedSets()
	sets = make([]kernel.Set, 0, len(named))
	entries = make([]kernel.Entry, 0, 3*len(l.fronts)+len(l.loops)) // most fronts are in two or three sets
	for _, set := range named {
		from := len(entries)
		entries = l.appendEntries(entries, set)
		n := len(entries) - from
		if n > 0 {
			filled[set.name] = true
		}
		capacity := uint32(0)
		if set.spec.Type != kernel.BitmapPort {
			capacity = kernel.Capacity(n)
		}
		sets = append(sets, kernel.Set{Name: set.name, Type: set.spec.Type, Family: set.family, MaxElem: capacity})
	}
	return sets, entries, filled
}

// appendEntries appends the entries of one set, sorted.
func (l *listing) appendEntries(entries []kernel.Entry, set namedSet) []kernel.Entry {
	from := len(entries)
	switch set.spec.Name {
	case kernel.LoopBack:
		return appendLoops(entries, l.loops, set.name, set.family)
	case kernel.HealthCheckNodePort:
		for _, c := range l.checks {
			if c.family == set.family {
				entries = append(entries, kernel.Entry{Set: set.name, Port: c.port})
			}
		}
	default:
		m := members[set.spec.Name]
		for i := range l.fronts {
			if f := &l.fronts[i]; m.takes(f) && f.key.Family() == set.family {
				entries = l.appendMembers(entries, set, f)
			}
		}
	}
	added := entries[from:]
	if !slices.IsSortedFunc(added, kernel.Entry.Compare) {
		slices.SortFunc(added, kernel.Entry.Compare)
	}
	return entries[:from+len(slices.Compact(added))]
}

// appendLoops appends the loops of a family, sorted ones, each once, as entries of their set.
func appendLoops(entries, loops []kernel.Entry, set string, f kernel.Family) []kernel.Entry {
	for i, e := range loops {
		if kernel.FamilyOf(e.Addr) == f && (i == 0 || e != loops[i-1]) {
			e.Set = set
			entries = append(entries, e)
		}
	}
	return entries
}

// appendMembers appends what a front is in a set of this type.
func (l *listing) appendMembers(entries []kernel.Entry, set namedSet, f *front) []kernel.Entry {
	a := f.key.Addr.Addr()
	e := kernel.Entry{Set: set.name, Addr: a, Proto: f.key.Proto, Port: f.key.Addr.Port()}
	switch set.spec.Type {
	case kernel.HashIP:
		e.Proto, e.Port = 0, 0
	case kernel.BitmapPort:
		e.Addr, e.Proto = netip.Addr{}, 0
	case kernel.HashIPPortIP:
		// What the host itself sends to a VIP that is bound here has the VIP as its source.
		e.Second = netip.PrefixFrom(a, a.BitLen())
	case kernel.HashIPPortNet:
		for _, r := range l.table.Services[f.service].SourceRanges {
			if kernel.FamilyOf(r.Addr()) == set.family {
				e.Second = r.Masked()
				entries = append(entries, e)
			}
		}
		return entries
	}
	return append(entries, e)
}
