package kernel

import (
	"fmt"
	"net/netip"
)

// Dependents follows a plan as it is carried out and tells which of its ops
// have lost what they stand on, so that the order of phases keeps its meaning
// when an op fails: no virtual server outside the ownership set, no VIP bound
// without a virtual server or a guard. The next plan has the rest.
//
// Its zero value, made with the names in use, is ready.
type Dependents struct {
	Names Names

	unowned  map[VirtualKey]error // ownership entry or virtual server not there
	unserved map[netip.Addr]error // no virtual server of this address came up
	lasting  map[VirtualKey]error // virtual server could not be removed
	bound    map[netip.Addr]error // address could not be removed
}

// Note takes the outcome of some neighbouring ops; errs is parallel to ops.
func (d *Dependents) Note(ops []Op, errs []error) {
	for i, err := range errs {
		if err != nil {
			d.failed(ops[i], err)
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

func (d *Dependents) failed(o Op, err error) {
	switch v := o.Object.(type) {
	case Entry:
		f := FamilyOf(v.Addr)
		switch {
		case o.Verb != Add:
		case d.Names.isSet(v.Set, f, VirtualServer):
			note(&d.unowned, v.Key(), err)
			note(&d.unserved, v.Addr, err)
		case d.Names.isSet(v.Set, f, IPVSIPs):
			note(&d.unserved, v.Addr, err)
		}
	case Virtual:
		switch o.Verb {
		case Remove:
			note(&d.lasting, v.Key, err)
		case Add:
			note(&d.unowned, v.Key, err)
			note(&d.unserved, v.Key.Addr.Addr(), err)
		}
	case Addr:
		if o.Verb == Remove {
			note(&d.bound, v.Addr, err)
		}
	}
}

func note[K comparable](m *map[K]error, k K, err error) {
	if *m == nil {
		*m = make(map[K]error)
	}
	(*m)[k] = err
}

// Lost is why an op must not be carried out, or nil.
func (d *Dependents) Lost(o Op) error {
	if d.unowned == nil && d.unserved == nil && d.lasting == nil && d.bound == nil {
		return nil
	}
	var cause error
	switch v := o.Object.(type) {
	case Virtual:
		if o.Verb == Add {
			cause = d.unowned[v.Key]
		}
	case Real:
		if o.Verb == Add {
			cause = d.unowned[v.Key.Virtual]
		}
	case Addr:
		if o.Verb == Add {
			cause = d.unserved[v.Addr]
		}
	case Entry:
		cause = d.lostEntry(o.Verb, v)
	}
	if cause == nil {
		return nil
	}
	return fmt.Errorf("not carried out, since what it needs failed: %w", cause)
}

func (d *Dependents) lostEntry(verb Verb, e Entry) error {
	_, spec, _ := d.Names.SetSpec(e.Set)
	switch {
	case verb == Add && spec.Opens:
		return d.unowned[e.Key()]
	case verb == Remove && spec.Name == VirtualServer:
		return d.lasting[e.Key()]
	case verb == Remove && spec.Name == IPVSIPs:
		return d.bound[e.Addr]
	}
	return nil
}
