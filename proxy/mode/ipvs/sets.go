package ipvs

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// membership says which fronts are in a set: those with all of some traits, none
// of others, and one protocol or, if it is 0, any. Where a set has several, a front
// must have one of them.
type membership struct {
	set       kernel.SetName
	all, none frontend.Traits
	proto     kernel.Proto
}

// members are the sets made of fronts. KUBE-LOOP-BACK is made of hairpins, and
// KUBE-HEALTH-CHECK-NODE-PORT of services.
//
// Unmasqueraded fronts are in none of the sets whose traffic is masqueraded: a reply to
// the node's address could not be translated back. No set of kube-proxy has cluster IPs
// that keep the source, so these are in the one of external IPs that do.
var members = [...]membership{
	{set: kernel.ClusterIP, all: frontend.ClusterIP, none: frontend.Unmasqueraded},
	{set: kernel.ExternalIP, all: frontend.ExternalIP, none: frontend.ExternalLocal | frontend.Unmasqueraded},
	{set: kernel.ExternalIPLocal, all: frontend.ExternalIP | frontend.ExternalLocal},
	{set: kernel.ExternalIPLocal, all: frontend.ExternalIP | frontend.Unmasqueraded},
	{set: kernel.ExternalIPLocal, all: frontend.ClusterIP | frontend.Unmasqueraded},
	{set: kernel.LoadBalancer, all: frontend.LoadBalancer},
	{set: kernel.LoadBalancerLocal, all: frontend.LoadBalancer | frontend.ExternalLocal},
	{set: kernel.LoadBalancerLocal, all: frontend.LoadBalancer | frontend.Unmasqueraded},
	{set: kernel.LoadBalancerFW, all: frontend.Restricted},
	{set: kernel.LoadBalancerSourceIP, all: frontend.Restricted | frontend.NodeAllowed},
	{set: kernel.LoadBalancerSourceCIDR, all: frontend.Restricted},
	{set: kernel.NodePortTCP, all: frontend.NodePort, proto: kernel.TCP},
	{set: kernel.NodePortLocalTCP, all: frontend.NodePort | frontend.ExternalLocal, proto: kernel.TCP},
	{set: kernel.NodePortUDP, all: frontend.NodePort, proto: kernel.UDP},
	{set: kernel.NodePortLocalUDP, all: frontend.NodePort | frontend.ExternalLocal, proto: kernel.UDP},
	{set: kernel.NodePortSCTP, all: frontend.NodePort, proto: kernel.SCTP},
	{set: kernel.NodePortLocalSCTP, all: frontend.NodePort | frontend.ExternalLocal, proto: kernel.SCTP},
	{set: kernel.IPVSIPs, all: frontend.Bound},
	{set: kernel.VirtualServer},
}

func (m membership) takes(x *frontend.Front) bool {
	return x.Traits.Has(m.all) && x.Traits&m.none == 0 && (m.proto == 0 || m.proto == x.Key.Proto)
}

// namedSet is one of our sets with its full name.
type namedSet struct {
	name   string
	family kernel.Family
	spec   kernel.SetSpec
}

// namedSets returns our sets in the order of a State: by full name.
func (w *writer) namedSets() []namedSet {
	families := w.f.Config.Families()
	sets := make([]namedSet, 0, len(families)*len(kernel.SetSpecs))
	for _, f := range families {
		for _, spec := range kernel.SetSpecs {
			if !spec.Former {
				sets = append(sets, namedSet{w.config.Names.Set(f, spec.Name), f, spec})
			}
		}
	}
	kernel.SortFunc(sets, func(a, b namedSet) int { return strings.Compare(a.name, b.name) })
	return sets
}

// sets returns the sets of a state and their entries, sorted. All sets always
// exist, sized for what they hold. filled has the full names of those that have
// entries or keep some: for these there are rules.
func (w *writer) sets() (sets []kernel.Set, entries kernel.Entries, filled map[string]bool) {
	filled = make(map[string]bool)
	for _, name := range w.config.Occupied {
		filled[name] = true
	}
	named, traits, hairpins := w.namedSets(), w.traits(), 0
	for i := range w.f.Table.Services.Len() {
		hairpins += len(w.f.Hairpins(i))
	}
	sets = make([]kernel.Set, 0, len(named))
	all := make([]kernel.Entry, 0, 3*len(w.f.Fronts)+hairpins) // most fronts are in two or three sets
	for _, set := range named {
		from := len(all)
		all = w.appendEntries(all, set, traits)
		n := len(all) - from
		if n > 0 {
			filled[set.name] = true
		}
		capacity := uint32(0)
		if set.spec.Type != kernel.BitmapPort {
			capacity = kernel.Capacity(n)
		}
		sets = append(sets, kernel.Set{Name: set.name, Type: set.spec.Type, Family: set.family, MaxElem: capacity})
	}
	return sets, kernel.EntriesOf(all), filled
}

// traits returns the traits that any front has. Most sets need one that none has.
func (w *writer) traits() (all frontend.Traits) {
	for i := range w.f.Fronts {
		all |= w.f.Fronts[i].Traits
	}
	return all
}

// appendEntries appends the entries of one set, sorted. traits are those of all fronts.
func (w *writer) appendEntries(entries []kernel.Entry, set namedSet, traits frontend.Traits) []kernel.Entry {
	from := len(entries)
	switch set.spec.Name {
	case kernel.LoopBack:
		for i := range w.f.Table.Services.Len() {
			entries = appendLoops(entries, w.f, i, set.family, set.name)
		}
	case kernel.HealthCheckNodePort:
		for port := range w.f.HealthCheckPorts(set.family) {
			entries = append(entries, kernel.Entry{Set: set.name, Port: port})
		}
	default:
		for _, m := range members {
			if m.set != set.spec.Name || !traits.Has(m.all) {
				continue
			}
			for i := range w.f.Fronts {
				if x := &w.f.Fronts[i]; m.takes(x) && x.Key.Family() == set.family {
					entries = w.appendMembers(entries, set, x)
				}
			}
		}
	}
	sortEntries(entries[from:])
	if set.spec.Name == kernel.LoopBack {
		w.repeated = append(w.repeated, repeated(entries[from:])...)
	}
	return entries[:from+len(slices.Compact(entries[from:]))]
}

// appendMembers appends the entries of a front in a set of this type.
func (w *writer) appendMembers(entries []kernel.Entry, set namedSet, x *frontend.Front) []kernel.Entry {
	a := x.Key.Addr
	e := kernel.Entry{Set: set.name, Addr: a, Proto: x.Key.Proto, Port: x.Key.Port}
	switch set.spec.Type {
	case kernel.HashIP:
		e.Proto, e.Port = 0, 0
	case kernel.BitmapPort:
		e.Addr, e.Proto = netip.Addr{}, 0
	case kernel.HashIPPortIP:
		// The host's own traffic to a VIP bound here has the VIP as its source.
		e.Second = netip.PrefixFrom(a, a.BitLen())
	case kernel.HashIPPortNet:
		for _, r := range w.ranges(x) {
			e.Second = r.Masked()
			entries = append(entries, e)
		}
		return entries
	}
	return append(entries, e)
}

// ranges returns the source ranges of a front that are of its family. Sets of nftables take none that overlap.
func (w *writer) ranges(x *frontend.Front) []netip.Prefix {
	all, f := w.f.Service(x).SourceRanges, x.Key.Family()
	if !w.config.Native {
		return slices.DeleteFunc(slices.Clone(all), func(r netip.Prefix) bool { return kernel.FamilyOf(r.Addr()) != f })
	}
	of := served{x.Service, f}
	ranges, known := w.disjoint[of]
	if !known {
		if w.disjoint == nil {
			w.disjoint = map[served][]netip.Prefix{}
		}
		ranges = mode.Ranges(all, f)
		w.disjoint[of] = ranges
	}
	return ranges
}

// served is a service, by index, in one family.
type served struct {
	service int32
	family  kernel.Family
}
