package main

import (
	"fmt"
	"net"
	"net/netip"

	moby "github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// library does the same work with moby/ipvs and vishvananda/netlink, one call for
// each object, as kube-proxy does. kube-proxy runs the program ipset for each
// entry; this calls the library.
func (b *bench) library(p *pass) error {
	g, err := p.lay()
	if err != nil {
		return err
	}
	defer g.close()
	l, err := openLibrary()
	if err != nil {
		return err
	}
	defer l.close()
	byPart := map[string][]kernel.Op{}
	for _, o := range g.plan.Ops {
		byPart[partOf(o)] = append(byPart[partOf(o)], o)
	}
	first := len(p.samples)
	for _, part := range []string{"ipset", "ipvs", "vips"} {
		err := p.lap("load "+part, func() error {
			for _, o := range byPart[part] {
				if err := l.add(o.Object); err != nil {
					return fmt.Errorf("%v: %w", o, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	p.samples = append(p.samples, p.total(p.samples[first:]))
	if err := l.look(p); err != nil {
		return err
	}
	return g.clean()
}

type library struct {
	ipvs   *moby.Handle
	handle *netlink.Handle
	link   netlink.Link // that VIPs are bound to
}

func openLibrary() (*library, error) {
	l := new(library)
	var err error
	if l.ipvs, err = moby.New(""); err != nil {
		return nil, err
	}
	if l.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER); err != nil {
		l.ipvs.Close()
		return nil, err
	}
	if l.link, err = l.handle.LinkByName(kernel.DefaultNames.Device); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *library) close() {
	l.ipvs.Close()
	l.handle.Close()
}

func (l *library) add(o kernel.Object) error {
	switch o := o.(type) {
	case kernel.Virtual:
		return l.ipvs.NewService(service(o.Key, o.Scheduler))
	case kernel.Real:
		return l.ipvs.NewDestination(service(o.Key.Virtual, ""), destination(o))
	case kernel.Entry:
		return l.handle.IpsetAdd(o.Set, entry(o))
	case kernel.Addr:
		return l.handle.AddrAdd(l.link, &netlink.Addr{IPNet: network(o.Addr)})
	case kernel.Route:
		return l.handle.RouteAdd(&netlink.Route{
			Dst: network(o.Addr), LinkIndex: 1, Scope: netlink.SCOPE_HOST, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Protocol: kernel.RouteProtocol,
		})
	}
	return fmt.Errorf("the library is not asked for a %T", o)
}

// addresses binds VIPs as kube-proxy does at every size, an address and a call each,
// where svcproxy makes a route of each.
func (b *bench) addresses(p *pass) error {
	if p.size.services <= routedAbove {
		return nil
	}
	g, err := p.lay()
	if err != nil {
		return err
	}
	defer g.close()
	l, err := openLibrary()
	if err != nil {
		return err
	}
	defer l.close()
	return p.lap("load vips, as addresses", func() error {
		for _, s := range table(p.size, p.family).Services.All() {
			if err := l.add(kernel.Addr{Addr: s.ClusterIPs[0]}); err != nil {
				return err
			}
		}
		return nil
	})
}

func service(k kernel.VirtualKey, scheduler string) *moby.Service {
	mask := ^uint32(0)
	if k.Family() == kernel.IPv6 {
		mask = 128
	}
	return &moby.Service{
		AddressFamily: uint16(k.Family()), Protocol: uint16(k.Proto), Address: net.IP(k.Addr.AsSlice()), Port: k.Port,
		SchedName: scheduler, Netmask: mask,
	}
}

func destination(r kernel.Real) *moby.Destination {
	return &moby.Destination{
		Address: net.IP(r.Key.Addr.Addr().AsSlice()), Port: r.Key.Addr.Port(), Weight: int(r.Weight), ConnectionFlags: moby.ConnectionFlagMasq,
	}
}

func entry(e kernel.Entry) *netlink.IPSetEntry {
	x := &netlink.IPSetEntry{IP: net.IP(e.Addr.AsSlice()), Replace: true}
	if e.Proto != 0 {
		proto := uint8(e.Proto)
		x.Protocol, x.Port = &proto, &e.Port
	}
	if e.Second.IsValid() {
		x.IP2 = net.IP(e.Second.Addr().AsSlice())
	}
	return x
}

func network(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: net.IP(a.AsSlice()), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// look reads it all back, and changes one real server as kube-proxy does: by a
// reading of all of IPVS first.
func (l *library) look(p *pass) error {
	read := func() error {
		services, err := l.ipvs.GetServices()
		if err != nil {
			return err
		}
		found := 0
		for _, s := range services {
			dests, err := l.ipvs.GetDestinations(s)
			if err != nil {
				return err
			}
			found += len(dests)
		}
		if found != p.size.services*p.size.endpoints {
			return fmt.Errorf("read %d real servers", found)
		}
		return nil
	}
	if err := p.lap("read ipvs", read); err != nil {
		return err
	}
	if err := p.lap("read ipset", func() error { _, err := l.handle.IpsetListAll(); return err }); err != nil {
		return err
	}
	if err := p.lap("read vips", func() error { return l.readVIPs(p) }); err != nil {
		return err
	}
	t := oneWeighed(table(p.size, p.family), 2)
	s := *t.Services.At(t.Services.Len() / 2)
	changed := s.Endpoints[len(s.Endpoints)/2]
	real := kernel.Real{Weight: 2, Key: kernel.RealKey{
		Virtual: kernel.VirtualKey{Addr: s.ClusterIPs[0], Port: 80, Proto: kernel.TCP},
		Addr:    netip.AddrPortFrom(changed.Addr, 8080),
	}}
	return p.lap("one endpoint: kernel", func() error {
		if err := read(); err != nil {
			return err
		}
		return l.ipvs.UpdateDestination(service(real.Key.Virtual, "wrr"), destination(real))
	})
}

func (l *library) readVIPs(p *pass) error {
	family := int(p.family)
	addrs, err := l.handle.AddrList(l.link, family)
	if err != nil {
		return err
	}
	routes, err := l.handle.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_LOCAL}, netlink.RT_FILTER_TABLE)
	if err == nil && len(addrs)+len(routes) < p.size.services {
		err = fmt.Errorf("read %d addresses and %d routes", len(addrs), len(routes))
	}
	return err
}
