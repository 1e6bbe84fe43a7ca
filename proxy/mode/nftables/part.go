package nftables

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// writer writes what one family needs.
type writer struct {
	mode.Scope
	workloads string // matches what comes from this node's own
	names     map[kernel.SetName]string
}

func newWriter(f *frontend.Frontends, c *mode.Config, family kernel.Family) *writer {
	w := &writer{Scope: mode.Scope{Frontends: f, Config: c, Family: family}, names: map[kernel.SetName]string{}}
	w.workloads = w.Local()
	for name := range setTypes {
		w.names[name] = c.Names.Set(family, name)
	}
	return w
}

// setTypes are the sets and maps of the mode.
var setTypes = map[kernel.SetName]kernel.SetType{
	kernel.Frontends:              kernel.MapIPPort,
	kernel.Slots:                  kernel.MapIPPortSlot,
	kernel.IPVSIPs:                kernel.HashIP,
	kernel.LoopBack:               kernel.HashIPPortIP,
	kernel.LoadBalancerSourceCIDR: kernel.HashIPPortNet,
	kernel.HealthCheckNodePort:    kernel.BitmapPort,
}

// set returns the full name of a set.
func (w *writer) set(name kernel.SetName) string { return w.names[name] }

// The chains, without prefix, for packets that no endpoint gets.
const (
	refuse  = "REFUSE"
	discard = "DROP"
)

// part is what one service adds to a family.
type part struct {
	entries []kernel.Entry // sorted; an endpoint that several ports of the service have is there once
	classes []class        // one for each frontend that has endpoints
}

// part returns what the service with an index adds. fronts are its fronts.
func (w *writer) part(index int, fronts []int32) part {
	p := drafted{writer: w}
	if !slices.ContainsFunc(fronts, func(at int32) bool { return w.Frontends.Fronts[at].Key.Family() == w.Family }) {
		return p.part // for the family that most services do not have
	}
	p.fronts = sources.ShapeOf(w.Frontends.Table.Services.At(index)).Fronts()
	for _, port := range w.Ports(index, fronts) {
		p.port(&port)
	}
	for _, h := range w.Frontends.Hairpins(index) {
		at := w.Frontends.Addr(index, h.Backend)
		if a := at.Addr(); kernel.FamilyOf(a) == w.Family {
			p.entries = append(p.entries, kernel.Entry{Set: w.set(kernel.LoopBack), Addr: a, Proto: h.Proto, Port: at.Port(),
				Second: netip.PrefixFrom(a, a.BitLen())})
		}
	}
	kernel.SortFunc(p.entries, kernel.Entry.Compare)
	p.entries = slices.Compact(p.entries)
	return p.part
}

// drafted is a part while it is made.
type drafted struct {
	*writer
	part
	sources []netip.Prefix // the source ranges of the service, nil before they are needed
	fronts  int            // of the service, on any node
}

// port adds the frontends of a service port.
func (d *drafted) port(p *mode.Port) {
	var all, here []int32
	choice := ""
	if fronts := append(p.Outside(), p.ClusterIPs...); len(fronts) > 0 {
		choice = choiceOf(d.Frontends, fronts[0])
	}
	deal := drawn
	if choice != "" {
		deal = hashed
	}
	all, here = deal(p.Cluster, d.fronts), deal(p.Local, d.fronts)
	for _, x := range p.ClusterIPs {
		list, slots := p.Cluster, all
		if p.Internal == kernel.ChainLocal {
			list, slots = p.Local, here
		}
		switch {
		case p.Internal == "":
			d.refused(x, p.Any() && x.Traits.Has(frontend.InternalLocal))
		default:
			d.lead(x, class{way: d.fromInside(x), choice: choice, slots: len(slots)})
			d.slots(x, list, slots, 0)
		}
	}
	for _, x := range p.Outside() {
		c := class{way: outside, choice: choice, slots: len(all)}
		c.restricted = x.Traits.Has(frontend.Restricted)
		switch {
		case !p.Any() || !p.KeepsSource() && p.External == "":
			d.unserved(x, p)
			continue
		case p.KeepsSource() && p.External == kernel.ChainCluster:
			c.way = fallback
		case p.KeepsSource():
			c.way, c.local = local, len(here)
		}
		d.lead(x, c)
		d.slots(x, p.Cluster, all, 0)
		if c.way == local {
			d.slots(x, p.Local, here, localSlots)
		}
		if c.restricted {
			d.ranges(x, p)
		}
	}
}

// fromInside returns the way of a cluster IP. One that is not bound needs no masquerading if workloads cannot be told
// from others: then it is for what the node sends from that address.
func (d *drafted) fromInside(x *frontend.Front) way {
	switch {
	case d.Config.MasqueradeAll:
		return outside
	case d.workloads == "" && !x.Traits.Has(frontend.Bound):
		return plain
	}
	return inside
}

// lead adds a frontend that leads to the chain of a class.
func (d *drafted) lead(x *frontend.Front, c class) {
	d.classes = append(d.classes, c)
	d.front(x, d.Config.Names.Balancer(c.name()))
}

// refused adds a frontend without endpoints. Under policy Local its packets are dropped, since another node may answer.
func (d *drafted) refused(x *frontend.Front, drop bool) {
	chain := refuse
	if drop {
		chain = discard
	}
	d.front(x, d.Config.Names.Balancer(chain))
}

// unserved adds a frontend for outside without endpoints. Whom the source ranges keep out gets no refusal either.
func (d *drafted) unserved(x *frontend.Front, p *mode.Port) {
	if !x.Traits.Has(frontend.Restricted) {
		d.refused(x, false)
		return
	}
	d.lead(x, class{way: nowhere, restricted: true})
	d.ranges(x, p)
}

func (d *drafted) front(x *frontend.Front, chain string) {
	d.entries = append(d.entries, kernel.Entry{Set: d.set(kernel.Frontends), Addr: x.Key.Addr, Proto: x.Key.Proto,
		Port: x.Key.Port, Goto: chain})
}

// slots adds slots of a frontend, from a number on.
func (d *drafted) slots(x *frontend.Front, list []mode.Endpoint, slots []int32, first int) {
	e := kernel.Entry{Set: d.set(kernel.Slots), Addr: x.Key.Addr, Proto: x.Key.Proto, Port: x.Key.Port}
	for i, of := range slots {
		at := list[of].At
		e.Slot, e.ToPort = uint16(first+i), at.Port()
		e.Second = netip.PrefixFrom(at.Addr(), at.Addr().BitLen())
		d.entries = append(d.entries, e)
	}
}

// ranges adds the source ranges of a load balancer IP.
func (d *drafted) ranges(x *frontend.Front, p *mode.Port) {
	if d.sources == nil {
		d.sources = mode.Ranges(p.Service.SourceRanges, d.Family)
	}
	for _, r := range allowed(d.sources, x.Key.Addr, x.Traits.Has(frontend.NodeAllowed)) {
		d.entries = append(d.entries, kernel.Entry{Set: d.set(kernel.LoadBalancerSourceCIDR), Addr: x.Key.Addr,
			Proto: x.Key.Proto, Port: x.Key.Port, Second: r})
	}
}
