package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// schedulers are those that svcproxy supports. With a hash scheduler it takes many clients
// until each endpoint has one: of 24 clients, a given one of three endpoints has none in one run of 17,000.
var schedulers = []struct {
	name    string
	clients int
}{
	{"rr", 12}, {"wrr", 12}, {"lc", 12}, {"wlc", 12}, {"sed", 12}, {"nq", 12}, {"mh", hashed}, {"sh", hashed}, {"dh", hashed},
}

const hashed = 24

// balancedPort is the port of the services that scheduled returns.
const balancedPort = 7200

// scheduled is one service with a health check for each scheduler.
func scheduled() (all []checkedService) {
	for i, s := range schedulers {
		all = append(all, checkedService{
			name: s.name, vip: fmt.Sprintf("10.96.2.%d", i+1), port: balancedPort,
			check: "{ type = \"tcp\", " + patient + " }", more: fmt.Sprintf("scheduler = %q", s.name),
		})
	}
	return all
}

// realsOf are the real servers of services on a backend.
func realsOf(services []checkedService, pod int) (reals []lab.Real) {
	for _, s := range services {
		reals = append(reals, s.real(pod))
	}
	return reals
}

// wantServedBy wants a connection of every client accepted under every scheduler,
// and none to be with the backend that is out.
func (n node) wantServedBy(t *testing.T, services []checkedService, clients []netip.Addr, when, out string) {
	t.Helper()
	for i, s := range services {
		refused, who := 0, map[string]int{}
		for _, from := range clients[:schedulers[i].clients] {
			c, err := n.Client.DialFrom("tcp", from, s.front())
			if err != nil {
				refused++
				continue
			}
			a, err := c.Ask()
			if err != nil {
				refused++
			}
			who[a.Backend]++
			defer c.Reset() // some schedulers count what is open
		}
		if refused > 0 || who[out] > 0 || s.name != "dh" && len(who) < 2 {
			t.Errorf("%s, %s: %d of %d connections failed, the others are with %v; want none with %q", when, s.name, refused, schedulers[i].clients, who, out)
		}
	}
}

// While one of three endpoints is down, or drained by the operator, no scheduler
// refuses a client, neither before nor after a restart of svcproxy.
func TestNoSchedulerRefusesWhileAnEndpointIsOut(t *testing.T) {
	n := newCheckedNode(t, "")
	services := scheduled()
	ports := n.openPorts(t, balancedPort, lines)
	clients := manyClients(t, n, hashed)
	n.start(t, textOf(services))
	n.wantServedBy(t, services, clients, "at first", "")

	again := func() {
		t.Helper()
		n.Kill()
		must(t, n.Start())
		n.eventually(t, patience, "status", "9 services")
	}
	must(t, ports[0].Close())
	n.becomes(t, patience, false, realsOf(services, 1)...)
	n.wantServedBy(t, services, clients, "with pod1 down", "pod1")
	again()
	n.wantServedBy(t, services, clients, "with pod1 down, after a restart", "pod1")
	must(t, ports[0].Open())
	n.becomes(t, patience, true, realsOf(services, 1)...)

	n.says(t, 0, "drain 10.2.2.10 --reason test")
	n.becomes(t, patience, false, realsOf(services, 2)...)
	n.wantServedBy(t, services, clients, "with pod2 drained", "pod2")
	again()
	n.wantServedBy(t, services, clients, "with pod2 drained, after a restart", "pod2")
	n.says(t, 0, "undrain 10.2.2.10")
	n.becomes(t, patience, true, realsOf(services, 2)...)
	n.wantServedBy(t, services, clients, "in the end", "")
}

// kube-proxy sets the flag mh-port and no flag of fallback. The endpoint that is
// down when svcproxy takes over its virtual servers refuses nobody, nor does one
// that the operator drains later.
func TestNoSchedulerRefusesAfterATakeOver(t *testing.T) {
	n := newCheckedNode(t, "")
	services := scheduled()
	ports := n.openPorts(t, balancedPort, lines)
	clients := manyClients(t, n, hashed)
	var sets, virtuals, addrs strings.Builder
	for _, s := range services {
		flags := ""
		if s.name == "mh" {
			flags = " -b mh-port"
		}
		fmt.Fprintf(&virtuals, "-A -t %s -s %s%s\n", s.front(), s.name, flags)
		for pod := range 3 {
			fmt.Fprintf(&virtuals, "-a -t %s -r %s -m -w 1\n", s.front(), s.real(pod+1).Addr)
		}
		fmt.Fprintf(&sets, "add KUBE-CLUSTER-IP %s,tcp:80\nadd KUBE-IPVS-IPS %s\n", s.vip, s.vip)
		fmt.Fprintf(&addrs, "addr add %s/32 dev kube-ipvs0\n", s.vip)
	}
	n.feed(t, leftover(t, "ipset")+sets.String(), "ipset", "restore")
	n.feed(t, leftover(t, "iptables"), "iptables-restore")
	n.feed(t, leftover(t, "ip6tables"), "ip6tables-restore")
	n.feed(t, virtuals.String(), "ipvsadm", "-R")
	must(t, n.Lab.Node.IP("link add kube-ipvs0 type dummy"))
	n.feed(t, addrs.String(), "ip", "-batch", "-")

	must(t, ports[0].Close())
	n.start(t, textOf(services))
	n.becomes(t, patience, false, realsOf(services, 1)...)
	n.wantServedBy(t, services, clients, "after the take-over", "pod1")
	must(t, ports[0].Open())
	n.becomes(t, patience, true, realsOf(services, 1)...)
	n.wantServedBy(t, services, clients, "with all up", "")
	n.says(t, 0, "drain 10.2.2.10 --reason test")
	n.becomes(t, patience, false, realsOf(services, 2)...)
	n.wantServedBy(t, services, clients, "with pod2 drained", "pod2")
}
