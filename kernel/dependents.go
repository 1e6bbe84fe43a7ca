package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// dependents follows a plan as it is carried out and tells which of its ops
// have lost what they stand on, so that the order of phases keeps its meaning
// when an op fails: no virtual server outside the ownership set, none gone that
// new connections are still let in to, no VIP bound without a virtual server or
// a guard. The next plan has the rest.
type dependents struct {
	Names  Names
	Ops    []Op                // the whole plan
	served []netip.Addr        // addresses that had a virtual server of ours before the plan; sorted
	adds   map[VirtualKey]bool // virtual servers that the plan adds; nil if not asked for

	unready    map[Family]error     // a sysctl could not be set without which a VIP must not be opened
	unmade     map[Family]error     // the ownership set could not be made
	unowned    map[VirtualKey]error // ownership entry or virtual server not there
	unserved   map[netip.Addr]error // no virtual server of this address came up
	unguarded  map[netip.Addr]error // not in IPVS-IPS
	unfiltered map[Family]error     // the chain that heeds IPVS-IPS could not be made
	unfilled   map[string]error     // temporary set that lacks something
	open       map[VirtualKey]error // new connections could not be shut out
	lasting    map[VirtualKey]error // virtual server could not be removed
	bound      map[netip.Addr]error // address could not be removed
	failures   bool                 // any of these has anything
}

// note takes the outcome of some neighbouring ops; errs is parallel to ops.
func (d *dependents) note(ops []Op, errs []error) {
	for i, err := range errs {
		if err != nil {
			d.failed(ops[i], err)
			d.failures = true
		}
	}
	if len(d.unserved) == 0 {
		return
	}
	for i, err := range errs {
		if v, ok := ops[i].Object.(Virtual); ok && err == nil && ops[i].Verb != Remove {
			delete(d.unserved, v.Key.Addr.Addr())
		}
	}
}

func (d *dependents) failed(o Op, err error) {
	switch v := o.Object.(type) {
	case Sysctl:
		for _, f := range v.needed() {
			mark(&d.unready, f, err)
		}
	case Set:
		if o.Verb == Add {
			d.failedTemp(v.Name, err)
			if d.Names.isSet(v.Name, v.Family, VirtualServer) {
				mark(&d.unmade, v.Family, err)
			}
		}
	case Entry:
		d.failedEntry(o.Verb, v, err)
	case Chain:
		// One that exists goes on guarding when a change of it fails.
		if o.Verb == Add && v.Table == "filter" {
			mark(&d.unfiltered, v.Family, err)
		}
	case Virtual:
		switch o.Verb {
		case Remove:
			mark(&d.lasting, v.Key, err)
		case Add:
			mark(&d.unowned, v.Key, err)
			d.failedServing(v.Key.Addr.Addr(), err)
		}
	case Addr, Route:
		if o.Verb == Remove {
			mark(&d.bound, local(v), err)
		}
	}
}

// needed are the families whose VIPs a parameter keeps closed when it cannot be
// set. Without vs.conntrack nothing is masqueraded, without forwarding no packet
// reaches a real server, and with the ARP of strictARP unset the node would answer
// for VIPs that are another's to announce.
func (s Sysctl) needed() []Family {
	switch s.Name {
	case "net.ipv4.vs.conntrack":
		return []Family{IPv4, IPv6}
	case "net.ipv4.ip_forward", "net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce":
		return []Family{IPv4}
	case "net.ipv6.conf.all.forwarding":
		return []Family{IPv6}
	}
	return nil
}

// local is the VIP that an address or a route makes local.
func local(o Object) netip.Addr {
	if r, ok := o.(Route); ok {
		return r.Addr
	}
	return o.(Addr).Addr
}

func (d *dependents) failedEntry(verb Verb, e Entry, err error) {
	_, spec, _ := d.Names.SetSpec(e.Set)
	switch {
	case verb == Remove && spec.Opens:
		mark(&d.open, e.Key(), err)
	case verb != Add:
	case spec.Name == VirtualServer:
		mark(&d.unowned, e.Key(), err)
		d.failedServing(e.Addr, err)
	case spec.Name == IPVSIPs:
		mark(&d.unguarded, e.Addr, err)
	default:
		d.failedTemp(e.Set, err)
	}
}

func (d *dependents) failedTemp(set string, err error) {
	if strings.HasPrefix(set, d.Names.TempSets()) {
		mark(&d.unfilled, set, err)
	}
}

func (d *dependents) failedServing(a netip.Addr, err error) {
	if _, already := slices.BinarySearchFunc(d.served, a, netip.Addr.Compare); !already {
		mark(&d.unserved, a, err)
	}
}

func mark[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

// lost is why an op must not be carried out, or nil.
func (d *dependents) lost(o Op) error {
	if !d.failures {
		return nil
	}
	if cause := d.cause(o); cause != nil {
		return fmt.Errorf("not carried out, since what it needs failed: %w", cause)
	}
	return nil
}

func (d *dependents) cause(o Op) error {
	switch v := o.Object.(type) {
	case Swap:
		return d.unfilled[v.From] // it would take entries away from rules
	case Set:
		if o.Verb == Remove {
			return d.needed(v)
		}
	case Chain:
		if o.Verb == Remove {
			return anyOf(d.bound, v.Family, FamilyOf)
		}
	case Entry:
		return d.lostEntry(o.Verb, v)
	case Virtual:
		switch o.Verb {
		case Remove:
			return d.open[v.Key]
		case Add:
			return cmp.Or(d.unready[v.Key.Family()], d.unowned[v.Key])
		}
		return d.unowned[v.Key]
	case Real:
		return d.unowned[v.Key.Virtual]
	case Addr, Route:
		if o.Verb == Add {
			vip := local(v)
			return cmp.Or(d.unready[FamilyOf(vip)], d.unserved[vip], d.unguarded[vip], d.unfiltered[FamilyOf(vip)])
		}
	case Neighbor:
		if o.Verb == Add {
			return cmp.Or(d.unready[IPv6], d.unserved[v.Addr], d.unguarded[v.Addr], d.unfiltered[IPv6])
		}
	}
	return nil
}

func (d *dependents) lostEntry(verb Verb, e Entry) error {
	family, spec, _ := d.Names.SetSpec(e.Set)
	switch {
	case verb == Add && d.unmade[family] != nil:
		// Without the ownership set the next reading would take these for
		// kube-proxy's, and what others serve under their numbers with them.
		return d.unmade[family]
	case verb == Add && spec.Name == VirtualServer && d.unready[family] != nil && d.added(e.Key()):
		// Its virtual server is left out; one that another program makes under
		// this entry would count as ours.
		return d.unready[family]
	case verb == Add && spec.Opens:
		return cmp.Or(d.unready[family], d.unowned[e.Key()])
	case verb == Remove && spec.Name == VirtualServer:
		return d.lasting[e.Key()]
	case verb == Remove && spec.Name == IPVSIPs:
		return d.bound[e.Addr]
	}
	return nil
}

// added says whether the plan adds a virtual server. One that it adopts is there.
func (d *dependents) added(k VirtualKey) bool {
	if d.adds == nil {
		d.adds = make(map[VirtualKey]bool)
		for _, o := range d.Ops {
			if v, ok := o.Object.(Virtual); ok && o.Verb == Add {
				d.adds[v.Key] = true
			}
		}
	}
	return d.adds[k]
}

// needed is why a set cannot go yet.
func (d *dependents) needed(s Set) error {
	f, spec, _ := d.Names.SetSpec(s.Name)
	if spec.Name == VirtualServer {
		return anyOf(d.lasting, f, VirtualKey.Family)
	}
	return nil
}

// anyOf is the error of some key of a family.
func anyOf[K comparable](m map[K]error, f Family, family func(K) Family) error {
	for k, err := range m {
		if family(k) == f {
			return err
		}
	}
	return nil
}
