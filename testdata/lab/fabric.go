package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// A Fabric is a router that spreads flows over several nodes, and servers that answer past the nodes. The router
// joins the links of nodes and servers in a bridge.
//
//	client 192.0.2.2 ---- 192.0.2.1 router 10.30.N.1 ---- 10.30.N.2 nodeN
//	                      router 10.20.0.254 (bridge) ---- 10.20.0.N nodeN, 10.20.0.(100+M) podM
type Fabric struct {
	Client, Router *Host
	Nodes          []*Host
	Backends       []*Backend
}

// NewFabric builds the network and starts the servers. Each has the VIPs.
func NewFabric(nodes, servers int, vips ...netip.Addr) (*Fabric, error) {
	f := &Fabric{}
	if err := f.build(nodes, servers, vips); err != nil {
		return nil, errors.Join(fmt.Errorf("building the fabric: %w", err), f.Close())
	}
	return f, nil
}

func (f *Fabric) build(nodes, servers int, vips []netip.Addr) (err error) {
	if f.Router, err = newHost("router", "192.0.2.1", "2001:db8::1"); err != nil {
		return err
	}
	// A way whose link is down gets no flows, and the flows of one address go several ways.
	_, err = f.Router.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1",
		"net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0",
		"net.ipv4.conf.all.ignore_routes_with_linkdown=1", "net.ipv4.conf.default.ignore_routes_with_linkdown=1")
	if err == nil {
		// Without an address of its own a bridge has the lowest of its links', and gets another one with a lost node.
		err = f.Router.IP("link add servers address 02:00:00:00:00:fe type bridge", "addr add 10.20.0.254/24 dev servers", "link set servers up")
	}
	if err != nil {
		return err
	}
	if f.Client, err = newHost("client", "192.0.2.2", "2001:db8::2"); err != nil {
		return err
	}
	if err := f.cable(f.Client, "eth0", "client", "192.0.2.1/24", "192.0.2.2/24"); err != nil {
		return err
	}
	f.Nodes = make([]*Host, nodes)
	for i := range nodes {
		if err := f.addNode(i + 1); err != nil {
			return err
		}
	}
	for i := range servers {
		if err := f.addServer(i+1, vips); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fabric) addNode(n int) error {
	h, err := newHost(fmt.Sprintf("node%d", n), fmt.Sprintf("10.20.0.%d", n), fmt.Sprintf("fd00:20::%d", n))
	if err != nil {
		return err
	}
	f.Nodes[n-1] = h
	if err := h.looseSources(); err != nil {
		return err
	}
	if err := f.cable(h, "eth0", h.Name, fmt.Sprintf("10.30.%d.1/24", n), fmt.Sprintf("10.30.%d.2/24", n)); err != nil {
		return err
	}
	return f.bridge(h, "eth1", h.Name+"b")
}

func (f *Fabric) addServer(n int, vips []netip.Addr) error {
	h, err := newHost(fmt.Sprintf("pod%d", n), fmt.Sprintf("10.20.0.%d", 100+n), fmt.Sprintf("fd00:20::%d", 100+n))
	if err != nil {
		return err
	}
	b := &Backend{Host: h}
	f.Backends = append(f.Backends, b)
	if err := f.bridge(h, "eth0", h.Name); err != nil {
		return err
	}
	if err := h.IP("route add default via 10.20.0.254"); err != nil {
		return err
	}
	if err := b.Own(vips...); err != nil {
		return err
	}
	return b.serve()
}

// cable joins a host with the router, and leads all of the host's traffic there.
func (f *Fabric) cable(h *Host, own, link, here, there string) error {
	err := f.Router.IP(fmt.Sprintf("link add %s type veth peer name %s netns %s", link, own, h.path()),
		fmt.Sprintf("addr add %s dev %s", here, link), fmt.Sprintf("link set %s up", link))
	if err != nil {
		return err
	}
	gateway := netip.MustParsePrefix(here).Addr()
	return h.IP(fmt.Sprintf("addr add %s dev %s", there, own), fmt.Sprintf("link set %s up", own), fmt.Sprintf("route add default via %s", gateway))
}

// bridge joins a host with the router's bridge.
func (f *Fabric) bridge(h *Host, own, link string) error {
	err := f.Router.IP(fmt.Sprintf("link add %s type veth peer name %s netns %s", link, own, h.path()),
		fmt.Sprintf("link set %s master servers", link), fmt.Sprintf("link set %s up", link))
	if err != nil {
		return err
	}
	return h.IP(fmt.Sprintf("addr add %s/24 dev %s", h.V4, own), fmt.Sprintf("link set %s up", own))
}

// Route spreads the flows of a VIP over some nodes, counted from 1.
func (f *Fabric) Route(vip netip.Addr, nodes ...int) error {
	line := fmt.Sprintf("route replace %s/%d", vip, vip.BitLen())
	for _, n := range nodes {
		line += fmt.Sprintf(" nexthop via 10.30.%d.2", n)
	}
	return f.Router.IP(line)
}

// Cut takes the link between the router and a node down, or up.
func (f *Fabric) Cut(node int, cut bool) error {
	state := "up"
	if cut {
		state = "down"
	}
	return f.Router.IP(fmt.Sprintf("link set node%d %s", node, state))
}

// CutAll takes both links of a node down, or up.
func (f *Fabric) CutAll(node int, cut bool) error {
	state := "up"
	if cut {
		state = "down"
	}
	return f.Router.IP(fmt.Sprintf("link set node%d %s", node, state), fmt.Sprintf("link set node%db %s", node, state))
}

// Lose takes a node's links down, and takes them away with its namespace, in which no process runs any more, once the
// router has no route over them: the kernel drops a whole route of several nodes with the link to one, which no lost power
// does. Nothing is left of the node's kernel's tables. The kernel may be busy with that for seconds.
func (f *Fabric) Lose(node int) error {
	if err := f.CutAll(node, true); err != nil {
		return err
	}
	link := fmt.Sprintf("dev node%d ", node)
	err := Eventually(patience, func() error {
		routes, err := f.Router.Run("ip", "route", "show")
		if err == nil && strings.Contains(routes, link) {
			err = fmt.Errorf("the router has routes over %sstill:\n%s", link, routes)
		}
		return err
	})
	err = errors.Join(err, f.Router.IP(fmt.Sprintf("link del node%d", node), fmt.Sprintf("link del node%db", node)),
		f.Nodes[node-1].Close())
	f.Nodes[node-1] = nil
	return err
}

// Replace makes a node that was lost, with the same links and addresses.
func (f *Fabric) Replace(node int) error { return f.addNode(node) }

// Close ends the servers and lets go of the namespaces.
func (f *Fabric) Close() error {
	var errs []error
	for _, b := range f.Backends {
		errs = append(errs, b.close())
	}
	for _, h := range append([]*Host{f.Client, f.Router}, f.Nodes...) {
		if h != nil {
			errs = append(errs, h.Close())
		}
	}
	return errors.Join(errs...)
}
