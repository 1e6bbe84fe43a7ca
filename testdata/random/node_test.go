package random

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

const nodeName = "n1"

// What is foreign on the node: a virtual server, a set, rules, a local route and
// a proxy neighbour.
var foreignVirtual = netip.MustParseAddrPort("10.9.9.9:99")

const foreignNeighbor = "2001:db8::77"

var foreigners = [][]string{
	{"ipvsadm", "-A", "-t", foreignVirtual.String(), "-s", "wlc", "-p", "600"},
	{"ipvsadm", "-a", "-t", foreignVirtual.String(), "-r", "10.9.9.1:99", "-g", "-w", "7"},
	{"ipset", "create", "blocklist", "hash:ip"},
	{"ipset", "add", "blocklist", "192.0.2.66"},
	{"iptables", "-N", "MINE"},
	{"iptables", "-A", "MINE", "-m", "set", "--match-set", "blocklist", "src", "-j", "DROP"},
	{"iptables", "-I", "INPUT", "-j", "MINE"},
	{"iptables", "-A", "FORWARD", "-i", "eth9", "-m", "comment", "--comment", "not ours", "-j", "ACCEPT"},
	{"iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "eth9", "-j", "MASQUERADE"},
	{"iptables", "-t", "raw", "-A", "PREROUTING", "-i", "eth9", "-j", "ACCEPT"},
	{"ip6tables", "-t", "raw", "-A", "OUTPUT", "-o", "eth9", "-j", "ACCEPT"},
	{"ip6tables", "-A", "INPUT", "-s", "2001:db8:bad::/48", "-j", "DROP"},
	{"ip6tables", "-t", "nat", "-A", "PREROUTING", "-i", "eth9", "-j", "ACCEPT"},
	{"ip", "route", "add", "local", "10.9.9.9", "dev", "lo", "table", "local"},
	{"ip", "neigh", "add", "proxy", foreignNeighbor, "dev", "eth0"},
}

// node is a network namespace with links of its own, and what was in it before.
type node struct {
	*testing.T
	kernel   *host.Kernel
	stateDir string
	have     kernel.Observed // the last reading, advanced
	mode     mode.Mode
	relay    *relay.Relay   // in mode userspace, else nil
	client   *lab.Namespace // another host, nil where a test has one namespace alone
	port     uint16         // that a packet was sent from last

	compared int // packets with what the tracer says
	chosen   int // of those whose real server a hash decides

	before        []string
	beforeSysctls map[string]string
	forwardsIPv6  bool // since an IPv6 service was there
	toggled       bool // it has the second link's addresses
}

// newNode makes the links, with addresses that are VIPs in some tables, too, and
// plants the foreigners.
func newNode(t *testing.T) *node {
	kerneltest.NewNamespace(t)
	kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy)
	kerneltest.Run(t, "sh", "-ec", `ip -batch - <<END
link add eth0 type dummy
link set eth0 up
link add eth1 type dummy
link set eth1 up
addr add 192.0.2.1/24 dev eth0
addr add 2001:db8::1/64 dev eth0 nodad
route add default via 192.0.2.254
route add default via 2001:db8::fe
END`)
	for _, args := range foreigners {
		kerneltest.Run(t, args[0], args[1:]...)
	}
	n := &node{T: t, port: firstPort}
	if os.Geteuid() == 0 {
		n.addClient()
	}
	n.before, n.beforeSysctls = readKernel(t).others(false), allSysctls(t)
	n.stateDir = t.TempDir()
	n.open()
	return n
}

// use changes the mode. The relay belongs to the program's process, so a change from or
// to mode userspace is a start.
func (n *node) use(m mode.Mode) {
	n.Helper()
	relays := m.Name() == (userspace.Mode{}).Name()
	n.mode = m
	if relays == (n.relay != nil) {
		return
	}
	n.kernel.Close()
	if !relays {
		n.relay.Close()
		n.relay = nil
	} else {
		var err error
		if n.relay, err = relay.New(relay.Options{UDPIdle: time.Minute}); err != nil {
			n.Fatal(err)
		}
		n.Cleanup(n.relay.Close)
	}
	n.open()
}

// open is what a start of the program does.
func (n *node) open() {
	n.Helper()
	k, err := host.Open(n.Context(), host.Options{
		Names: kernel.DefaultNames, NodeName: nodeName, Zone: "a", StateDir: n.stateDir, Sysctls: sysctlNames, Relay: n.relay,
	})
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { k.Close() })
	n.kernel = k
	n.read()
}

// toggle gives the second link its addresses, or takes them.
func (n *node) toggle() {
	n.Helper()
	verb := map[bool]string{false: "add", true: "del"}[n.toggled]
	for _, addr := range []string{"192.0.2.2/24", "2001:db8::2/64"} {
		kerneltest.Run(n, "ip", "addr", verb, addr, "dev", "eth1")
	}
	n.toggled = !n.toggled
	n.read()
}
