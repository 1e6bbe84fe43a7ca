package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// conflicts lists the virtual servers that another program made, and the VIPs that
// another host has.
func (b *builder) conflicts() []Conflict {
	list := []Conflict{}
	for _, c := range b.in.History.conflicts {
		list = append(list, Conflict{Service: b.nameAt(c.Want.Key), Address: c.Want.Key.AddrPort(),
			Proto: c.Want.Key.Proto.String(), Text: c.String()})
	}
	for _, t := range b.in.History.taken {
		for i := range b.services {
			s := &b.services[i]
			j := slices.IndexFunc(s.Virtuals, func(v Virtual) bool { return v.Address.Addr() == t.Addr && v.Conflict != "" })
			if j >= 0 {
				list = append(list, Conflict{Service: s.Name, Address: s.Virtuals[j].Address, Proto: s.Virtuals[j].Protocol,
					Text: t.String()})
				break // one line for each VIP
			}
		}
	}
	return list
}

// faults lists the ops that the kernel refuses, with their services.
func (b *builder) faults() []Fault {
	list := []Fault{}
	for _, f := range b.in.History.faults {
		list = append(list, Fault{Op: f.text, Service: b.serviceOf(f.op.Object), Error: f.err, Since: b.in.at(f.since),
			Count: f.count})
	}
	return list
}

// nameAt is the name of the service that has a virtual server; "" if none has. The
// key of an entry in a set of node ports has no address: its port decides.
func (b *builder) nameAt(k kernel.VirtualKey) string {
	if i, found := b.f.Find(k); found {
		return b.f.Service(&b.f.Fronts[i]).DisplayName()
	}
	for i := range b.f.Fronts {
		if x := &b.f.Fronts[i]; x.Traits.Has(frontend.NodePort) && x.Key.Port == k.Port && x.Key.Proto == k.Proto {
			return b.f.Service(x).DisplayName()
		}
	}
	return ""
}

// nameOf is the name of the first service that has a VIP.
func (b *builder) nameOf(vip netip.Addr) string {
	for i := range b.f.Table.Services.Len() {
		if s := b.f.Table.Services.At(i); s.HasVIP(vip) {
			return s.DisplayName()
		}
	}
	return ""
}

// attach adds faults to their services, which are sorted by name, and sets the state
// of these to Refused.
func attach(services []Service, faults []Fault) {
	for _, f := range faults {
		i, _ := slices.BinarySearchFunc(services, f.Service, func(s Service, name string) int {
			return cmp.Compare(s.Name, name)
		})
		for ; i < len(services) && services[i].Name == f.Service; i++ {
			s := &services[i]
			if s.State == LeftOut {
				continue
			}
			if s.Faults = append(s.Faults, f); len(s.Faults) == 1 {
				s.State, s.Reason = Refused, fmt.Sprintf("%s: %s", f.Op, f.Error)
			}
		}
	}
}

// serviceOf is the name of the service that an object of the kernel belongs to; ""
// if it belongs to none, or to all.
func (b *builder) serviceOf(o kernel.Object) string {
	switch v := o.(type) {
	case kernel.Virtual:
		return b.nameAt(v.Key)
	case kernel.Real:
		return b.nameAt(v.Key.Virtual)
	case kernel.Flow:
		return b.nameAt(v.Key.Virtual)
	case kernel.Entry:
		return b.nameAt(v.Key())
	case kernel.Addr:
		return b.nameOf(v.Addr)
	case kernel.Route:
		return b.nameOf(v.Addr)
	case kernel.Neighbor:
		return b.nameOf(v.Addr)
	case kernel.Announcement:
		return b.nameOf(v.Addr)
	}
	return ""
}
