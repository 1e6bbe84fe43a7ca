package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// dependents skips ops whose prerequisite failed. Otherwise a failed op could leave a
// virtual server outside the ownership set, new connections without their virtual
// server, or a VIP bound without virtual server or guard. The next plan has the skipped
// ops again.
type dependents struct {
	Names  kernel.Names
	Ops    []kernel.Op                // the whole plan
	served []netip.Addr               // addresses that had an owned virtual server before the plan, sorted
	adds   map[kernel.VirtualKey]bool // virtual servers that the plan adds; nil before it is needed

	unready    map[kernel.Family]error     // a sysctl that VIPs need could not be set
	unmade     map[kernel.Family]error     // the ownership set could not be created
	unowned    map[kernel.VirtualKey]error // ownership entry or virtual server is missing
	unserved   map[netip.Addr]error        // the address has no virtual server
	unguarded  map[netip.Addr]error        // not in IPVS-IPS
	unfiltered map[kernel.Family]error     // a chain that guards VIPs could not be written
	chains     failedChains
	noSet      map[string]error            // the set could not be created
	unchecked  map[kernel.Family]error     // the chains that hold source ranges could not be written
	anybody    map[kernel.VirtualKey]error // its source ranges do not hold
	slotless   map[kernel.VirtualKey]error // a slot of its map of endpoints is missing
	unfilled   map[string]error            // temporary set that lacks an entry
	open       map[kernel.VirtualKey]error // a VIP could not be closed
	lasting    map[kernel.VirtualKey]error // virtual server could not be removed
	bound      map[netip.Addr]error        // address could not be removed
	unbound    map[netip.Addr]error        // VIP could not be made local
	failures   bool                        // any of these has an error
}

// note takes the result of an op that was carried out, or was left out.
func (d *dependents) note(o kernel.Op, err error) {
	if err != nil {
		d.failed(o, err)
		d.failures = true
		return
	}
	if len(d.unserved) == 0 || o.Verb == kernel.Remove {
		return
	}
	switch v := o.Object.(type) {
	case kernel.Virtual:
		delete(d.unserved, v.Key.Addr)
	case kernel.Entry:
		if v.Goto != "" {
			delete(d.unserved, v.Addr)
		}
	}
}

func (d *dependents) failed(o kernel.Op, err error) {
	switch v := o.Object.(type) {
	case kernel.Sysctl:
		for _, f := range needing(v) {
			mark(&d.unready, f, err)
		}
	case kernel.Set:
		if o.Verb == kernel.Add {
			mark(&d.noSet, v.Name, err)
			d.failedTemp(v.Name, err)
			if d.Names.IsSet(v.Name, v.Family, kernel.VirtualServer) {
				mark(&d.unmade, v.Family, err)
			}
		}
	case kernel.Entry:
		if was, ok := o.Was.(kernel.Entry); ok && was.Goto != "" {
			d.chains.stays(chainOf(d.Names, was), err)
		}
		d.failedEntry(o.Verb, v, err)
	case kernel.Chain:
		d.chains.failed(o, err)
		if d.guards(o) {
			mark(&d.unfiltered, v.Family, err)
		}
		if v.Table == "filter" && o.Verb != kernel.Remove && d.checksSources(v) {
			mark(&d.unchecked, v.Family, err)
		}
	case kernel.Virtual:
		switch o.Verb {
		case kernel.Remove:
			mark(&d.lasting, v.Key, err)
		case kernel.Add:
			mark(&d.unowned, v.Key, err)
			d.failedServing(v.Key.Addr, err)
		}
	case kernel.Local:
		if o.Verb == kernel.Remove {
			mark(&d.bound, v.VIP(), err)
		} else {
			mark(&d.unbound, v.VIP(), err)
		}
	}
}

// checksSources reports whether source ranges hold by a chain of table filter.
func (d *dependents) checksSources(c kernel.Chain) bool {
	return c.BuiltIn() || d.Names.IsChain(c.Name, kernel.ChainProxyFirewall) ||
		d.Names.IsChain(c.Name, kernel.ChainSourceRangesFirewall)
}

// needing returns the families whose VIPs stay closed if a sysctl cannot be set. Without
// vs.conntrack nothing is masqueraded. Without forwarding no packet reaches a real
// server. Without the ARP sysctls of strictARP the node would answer for VIPs that
// another host announces.
func needing(s kernel.Sysctl) []kernel.Family {
	switch s.Name {
	case "net.ipv4.vs.conntrack":
		return []kernel.Family{kernel.IPv4, kernel.IPv6}
	case "net.ipv4.ip_forward", "net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce":
		return []kernel.Family{kernel.IPv4}
	case kernel.ForwardingIPv6:
		return []kernel.Family{kernel.IPv6}
	}
	return nil
}

func (d *dependents) failedEntry(verb kernel.Verb, e kernel.Entry, err error) {
	_, spec, _ := d.Names.SetSpec(e.Set)
	switch {
	case verb == kernel.Remove && spec.Opens:
		mark(&d.open, e.Key(), err)
	case spec.Limits:
		if verb != kernel.Remove && e.Proto != 0 {
			mark(&d.unguarded, e.Addr, err)
		}
	case spec.Type.IsMap() && verb != kernel.Remove && !spec.Opens:
		mark(&d.slotless, e.Key(), err)
	case spec.Type.IsMap() && verb == kernel.Change: // it leads to slots that are to be removed
		mark(&d.open, e.Key(), err)
	case verb != kernel.Add:
	case spec.Type.IsMap() && e.Addr.IsValid():
		d.failedServing(e.Addr, err)
	case spec.Name == kernel.VirtualServer:
		mark(&d.unowned, e.Key(), err)
		d.failedServing(e.Addr, err)
	case spec.Name == kernel.IPVSIPs:
		mark(&d.unguarded, e.Addr, err)
	case spec.Name == kernel.LoadBalancerFW:
		mark(&d.anybody, e.Key(), err)
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

// ErrSkipped is the error of an op that was not tried. What it needs failed, and has an error of its own.
var ErrSkipped = errors.New("not carried out, since what it needs failed")

// lost returns why an op must not be carried out, nil if it may.
func (d *dependents) lost(o kernel.Op) error {
	if !d.failures {
		return nil
	}
	if cause := d.cause(o); cause != nil {
		return fmt.Errorf("%w: %w", ErrSkipped, cause)
	}
	return nil
}

func (d *dependents) cause(o kernel.Op) error {
	switch v := o.Object.(type) {
	case kernel.Swap:
		return d.unfilled[v.From] // rules would lose entries
	case kernel.Set:
		if o.Verb == kernel.Remove {
			return cmp.Or(d.needed(v), d.chains.inSets[v.Name])
		}
	case kernel.Chain:
		if o.Verb == kernel.Remove || o.Verb == kernel.Change && d.Names.IsChain(v.Name, kernel.ChainVIPFilter) {
			if err := anyOf(d.bound, v.Family, kernel.FamilyOf); err != nil {
				return err
			}
		}
		if o.Verb == kernel.Remove {
			return d.chains.inUse[named(v)]
		}
		return d.lacks(v)
	case kernel.OtherChain: // it serves meanwhile
		return cmp.Or(d.unready[v.Family], anyOf(d.chains.unwritten, v.Family, familyOf),
			anyOf(d.unbound, v.Family, kernel.FamilyOf))
	case kernel.Entry:
		return d.lostEntry(o.Verb, v)
	case kernel.Virtual:
		switch o.Verb {
		case kernel.Remove:
			return d.open[v.Key]
		case kernel.Add:
			return cmp.Or(d.unready[v.Key.Family()], d.unowned[v.Key])
		}
		return d.unowned[v.Key]
	case kernel.Real:
		return d.unowned[v.Key.Virtual]
	case kernel.Local:
		if o.Verb == kernel.Add {
			vip := v.VIP()
			return cmp.Or(d.unready[kernel.FamilyOf(vip)], d.unserved[vip], d.unguarded[vip], d.unfiltered[kernel.FamilyOf(vip)])
		}
		return d.unbound[v.VIP()] // else a VIP that is to be local in another way would not be local at all
	case kernel.Announcement:
		if o.Verb == kernel.Add {
			return cmp.Or(d.unready[kernel.FamilyOf(v.Addr)], d.unbound[v.Addr], d.unserved[v.Addr], d.unguarded[v.Addr],
				d.unfiltered[kernel.FamilyOf(v.Addr)])
		}
	case kernel.Neighbor:
		if o.Verb == kernel.Add {
			return cmp.Or(d.unready[kernel.IPv6], d.unserved[v.Addr], d.unguarded[v.Addr], d.unfiltered[kernel.IPv6])
		}
	}
	return nil
}

func (d *dependents) lostEntry(verb kernel.Verb, e kernel.Entry) error {
	family, spec, _ := d.Names.SetSpec(e.Set)
	switch {
	case verb != kernel.Remove && d.noSet[e.Set] != nil:
		return d.noSet[e.Set]
	case spec.Limits:
		if verb == kernel.Remove || e.Goto == "" {
			return nil
		}
		return d.chains.unwritten[chainOf(d.Names, e)]
	case verb == kernel.Add && d.unmade[family] != nil:
		// Without the ownership set, the next reading would take these entries for
		// kube-proxy's, and treat other programs' virtual servers under the same numbers
		// as left by it.
		return d.unmade[family]
	case verb == kernel.Add && spec.Name == kernel.VirtualServer && d.unready[family] != nil && d.added(e.Key()):
		// Its virtual server is left out. One that another program makes under this
		// entry would count as owned.
		return d.unready[family]
	case verb == kernel.Add && spec.Name == kernel.LoadBalancer:
		// Nothing here says which of them have source ranges: all wait for the chains.
		return cmp.Or(d.unready[family], d.unowned[e.Key()], d.unchecked[family], d.anybody[e.Key()])
	case spec.Type.IsMap() && spec.Opens && verb != kernel.Remove:
		return cmp.Or(d.unready[family], d.unreached(e), d.slotless[e.Key()])
	case spec.Type.IsMap() && verb == kernel.Remove:
		return d.open[e.Key()] // nil where e opens
	case verb == kernel.Add && spec.Opens:
		return cmp.Or(d.unready[family], d.unowned[e.Key()])
	case verb == kernel.Remove && spec.Name == kernel.VirtualServer:
		return d.lasting[e.Key()]
	case verb == kernel.Remove && spec.Name == kernel.IPVSIPs:
		return d.bound[e.Addr]
	}
	return nil
}

// added says whether the plan adds a virtual server, and does not adopt it.
func (d *dependents) added(k kernel.VirtualKey) bool {
	if d.adds == nil {
		d.adds = make(map[kernel.VirtualKey]bool)
		for _, o := range d.Ops {
			if v, ok := o.Object.(kernel.Virtual); ok && o.Verb == kernel.Add {
				d.adds[v.Key] = true
			}
		}
	}
	return d.adds[k]
}

// needed returns why a set cannot be removed yet.
func (d *dependents) needed(s kernel.Set) error {
	f, spec, _ := d.Names.SetSpec(s.Name)
	if spec.Name == kernel.VirtualServer {
		return anyOf(d.lasting, f, kernel.VirtualKey.Family)
	}
	return nil
}

// anyOf returns the error of some key of a family.
func anyOf[K comparable](m map[K]error, f kernel.Family, family func(K) kernel.Family) error {
	for k, err := range m {
		if family(k) == f {
			return err
		}
	}
	return nil
}
