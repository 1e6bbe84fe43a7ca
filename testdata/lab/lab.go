// Package lab is a small network for tests of the whole program: a client on
// another host, a node that runs the real svcproxy, and three backends behind
// the node. Each has its own network namespace, with real sockets and packets.
//
//	client 192.0.2.2 ---- 192.0.2.1 node 10.2.N.1 ---- 10.2.N.10 podN (N = 1 to 3)
//
// It knows only svcproxy's command line. It reads the kernel with ipvsadm, ipset,
// iptables and ip, and it sees the effect by sending requests and reading which
// backend answered.
package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
)

// toolLimit ends what hangs. An emulated processor on a busy machine is slow, not
// that slow.
const toolLimit = 3 * time.Minute

// A Host is a namespace with an address of each family.
type Host struct {
	*Namespace
	V4, V6 netip.Addr
}

// Addr is the host's address of the family of like.
func (h *Host) Addr(like netip.Addr) netip.Addr {
	if like.Is4() {
		return h.V4
	}
	return h.V6
}

// A Lab is the network. The backends' way to everywhere is the node, so replies
// that were not masqueraded come back through it too.
type Lab struct {
	Client, Node *Host
	Backends     []*Backend
}

// backends is how many there are.
const backends = 3

// New builds the network and starts the backends.
func New() (*Lab, error) {
	l := &Lab{}
	if err := l.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("building the lab: %w", err), l.Close())
	}
	return l, nil
}

// NewNode builds the node alone, for what needs no traffic. It has the address
// and the uplink that the node of a whole lab has; this one leads nowhere.
func NewNode() (*Lab, error) {
	l := &Lab{}
	err := l.addNode()
	// A dummy device, if the kernel has it: beside a veth device, which has counters for each
	// processor, 10,000 real servers cost the kernel a fifth more.
	if err == nil && l.Node.IP("link add uplink type dummy", "link set uplink up") != nil {
		err = l.Node.IP("link add uplink type veth peer name nowhere", "link set nowhere arp off up", "link set uplink arp off up")
	}
	if err == nil {
		err = l.Node.IP("addr add 192.0.2.1/24 dev uplink", "addr add 2001:db8::1/64 dev uplink nodad", "route add default via 192.0.2.2")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("building a node: %w", err), l.Close())
	}
	return l, nil
}

// NewHere builds the network around this process's own namespace, where another
// program, such as systemd, runs svcproxy.
func NewHere() (*Lab, error) {
	l := &Lab{}
	file, err := os.Open(threadNamespace)
	if err == nil {
		l.Node = &Host{&Namespace{Name: "node", file: file}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
		err = l.addOthers()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("building the lab: %w", err), l.Close())
	}
	return l, nil
}

func (l *Lab) build() error {
	if err := l.addNode(); err != nil {
		return err
	}
	return l.addOthers()
}

func (l *Lab) addOthers() error {
	if err := l.addClient(); err != nil {
		return err
	}
	for i := range backends {
		if err := l.addBackend(i + 1); err != nil {
			return err
		}
	}
	return nil
}

func newHost(name, v4, v6 string) (*Host, error) {
	ns, err := NewNamespace(name)
	if err != nil {
		return nil, err
	}
	return &Host{ns, netip.MustParseAddr(v4), netip.MustParseAddr(v6)}, nil
}

func (l *Lab) addNode() (err error) {
	if l.Node, err = newHost("node", "192.0.2.1", "2001:db8::1"); err != nil {
		return err
	}
	// Of refusals, which are ICMP, a host gets one a second from the kernel after
	// the first six. Tests ask faster.
	_, err = l.Node.Run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	return err
}

// unserved are the prefixes that VIPs come from. If a network is routed to a
// node, the node must refuse addresses that it does not serve. Otherwise their
// packets would bounce over its default route until their TTL ends.
var unserved = []string{"10.96.0.0/12", "198.51.100.0/24", "203.0.113.0/24"}

func (l *Lab) addClient() (err error) {
	if l.Client, err = newHost("client", "192.0.2.2", "2001:db8::2"); err != nil {
		return err
	}
	if err := l.cable(l.Client, "uplink", "192.0.2", "2001:db8:"); err != nil {
		return err
	}
	routes := []string{"route add default via " + l.Client.V4.String()}
	for _, prefix := range unserved {
		routes = append(routes, "route add unreachable "+prefix)
	}
	return l.Node.IP(routes...)
}

func (l *Lab) addBackend(n int) error {
	subnet4, subnet6 := fmt.Sprintf("10.2.%d", n), fmt.Sprintf("fd00:2:%d:", n)
	host, err := newHost(fmt.Sprintf("pod%d", n), subnet4+".10", subnet6+":10")
	if err != nil {
		return err
	}
	b := &Backend{Host: host}
	l.Backends = append(l.Backends, b)
	if err := l.cable(host, host.Name, subnet4, subnet6); err != nil {
		return err
	}
	return b.serve()
}

// cable joins a host's eth0 with a link of the node's, which has the address .1,
// and leads all of the host's traffic there.
func (l *Lab) cable(h *Host, link, subnet4, subnet6 string) error {
	err := l.Node.IP(
		fmt.Sprintf("link add %s type veth peer name eth0 netns %s", link, h.path()),
		fmt.Sprintf("addr add %s.1/24 dev %s", subnet4, link),
		fmt.Sprintf("addr add %s:1/64 dev %s nodad", subnet6, link),
		fmt.Sprintf("link set %s up", link),
	)
	if err != nil {
		return err
	}
	return h.IP(
		fmt.Sprintf("addr add %s/24 dev eth0", h.V4),
		fmt.Sprintf("addr add %s/64 dev eth0 nodad", h.V6),
		"link set eth0 up",
		fmt.Sprintf("route add default via %s.1", subnet4),
		fmt.Sprintf("route add default via %s:1", subnet6),
	)
}

// Backend is the backend with this name.
func (l *Lab) Backend(name string) *Backend {
	for _, b := range l.Backends {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// Close ends the backends and lets go of the namespaces.
func (l *Lab) Close() error {
	var errs []error
	for _, b := range l.Backends {
		errs = append(errs, b.close())
	}
	for _, h := range []*Host{l.Client, l.Node} {
		if h != nil {
			errs = append(errs, h.Close())
		}
	}
	return errors.Join(errs...)
}
