package random

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// reading is what other people's tools print of the kernel.
type reading struct {
	objects string // ipvsadm, ipset, and iptables of both families
	ip      string // of both families: links, addresses, local routes, proxy neighbours
	// listeners are the sockets that take connections or datagrams, as in "tcp 10.96.0.1:80", sorted.
	listeners []string
}

// readers runs the tools. A new process takes 20 to 50 ms in an emulated guest, 10
// ms less as a child of a shell than of a Go program. So one shell starts all of
// them, and one ip answers several queries.
var readers = `
ipvsadm -Sn
ipset save` + saves() + `
echo ` + ipFollows + `
ip -o -batch - <<END
link show type dummy
addr show
route show table local
END
ip -6 -o -batch - <<END
route show table local
neigh show proxy
END
echo ` + listenersFollow + `
ss -Hlntu`

// What readers print before the next part.
const (
	ipFollows       = "=ip="
	listenersFollow = "=ss="
)

// saves prints all tables. Which there are of legacy ones only root may read; who
// is not names those that are written to.
func saves() string {
	if os.Geteuid() == 0 {
		return "\niptables-save\nip6tables-save"
	}
	return "\niptables-save -t nat\niptables-save -t filter\nip6tables-save -t nat\nip6tables-save -t filter"
}

func readKernel(t testing.TB) reading {
	t.Helper()
	objects, rest, _ := strings.Cut(kerneltest.Run(t, "sh", "-ec", readers), ipFollows+"\n")
	ip, sockets, _ := strings.Cut(rest, listenersFollow+"\n")
	r := reading{objects: objects, ip: ip}
	for line := range strings.Lines(sockets) {
		if f := strings.Fields(line); len(f) > 4 { // protocol, state, two queues, address
			r.listeners = append(r.listeners, f[0]+" "+f[4])
		}
	}
	slices.Sort(r.listeners)
	return r
}

// sysctl reads one kernel parameter.
func sysctl(t testing.TB, name string) string {
	t.Helper()
	value, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(value))
}

// allSysctls are the network's parameters, but for the one that counts.
func allSysctls(t testing.TB) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for line := range strings.Lines(kerneltest.Run(t, "sysctl", "-a", "-r", `^net\.`)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " =")
		all[name] = strings.TrimSpace(value)
	}
	delete(all, "net.netfilter.nf_conntrack_count")
	return all
}

// state is the part of a reading that is ours, as values.
func (r reading) state(t testing.TB) kernel.State {
	t.Helper()
	o, err := kernel.ParseObserved(r.objects)
	if err != nil {
		t.Fatal(err)
	}
	s := kernel.State{
		Sets:     slices.DeleteFunc(o.Sets, func(s kernel.Set) bool { return foreign(s.Name) }),
		Entries:  o.Entries.Where(func(e kernel.Entry) bool { return !foreign(e.Set) }),
		Virtuals: slices.DeleteFunc(o.Virtuals, func(v kernel.Virtual) bool { return v.Key.AddrPort() == foreignVirtual }),
		Reals:    o.Reals.Where(func(r *kernel.Real) bool { return r.Key.Virtual.AddrPort() != foreignVirtual }),
	}
	for _, c := range o.Chains {
		if c.BuiltIn() {
			c.Rules = jumps(c.Rules)
		}
		if !foreign(c.Name) || c.BuiltIn() && c.Rules != "" {
			s.Chains = append(s.Chains, c)
		}
	}
	for line := range strings.Lines(r.ip) {
		if err := addIPLine(&s, strings.Fields(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	s.Sort()
	return s
}

func foreign(name string) bool { return !strings.HasPrefix(name, "KUBE-") }

// jumps are the rules that lead to a chain of ours.
func jumps(rules string) string {
	var ours []string
	for rule := range strings.SplitSeq(rules, "\n") {
		if strings.Contains(rule, "-j KUBE-") {
			ours = append(ours, rule)
		}
	}
	return strings.Join(ours, "\n")
}

// addIPLine takes in what ip -o says of something of ours: of our device, with
// our mark, or a proxy neighbour.
func addIPLine(s *kernel.State, f []string) (err error) {
	device := kernel.DefaultNames.Device
	switch {
	case len(f) < 4 || !ipOurs(f):
	case f[1] == device+":":
		s.Links = append(s.Links, kernel.Link{Name: device, Type: "dummy"}) // ip was asked for that type
	case f[1] == device:
		p, err := netip.ParsePrefix(f[3])
		if err == nil && !p.IsSingleIP() {
			err = fmt.Errorf("an address with a network")
		}
		s.Addrs = append(s.Addrs, kernel.Addr{Addr: p.Addr(), Link: device})
		return err
	case f[0] == "local" && f[3] == "lo":
		var a netip.Addr
		a, err = netip.ParseAddr(f[1])
		s.Routes = append(s.Routes, kernel.Route{Addr: a})
	case f[1] == "dev" && f[3] == "proxy":
		var a netip.Addr
		a, err = netip.ParseAddr(f[0])
		s.Neighbors = append(s.Neighbors, kernel.Neighbor{Addr: a, Link: f[2]})
	case f[0] == "local" && f[3] == device: // the kernel's own, of a bound address
	default:
		err = fmt.Errorf("neither ours nor what follows from it")
	}
	return err
}

// ipOurs reports whether a line of ip is about something that a sync made.
func ipOurs(f []string) bool {
	device := kernel.DefaultNames.Device
	return slices.Contains(f, device) || slices.Contains(f, device+":") ||
		strings.Contains(strings.Join(f, " "), fmt.Sprintf("proto %d", kernel.RouteProtocol))
}

var counters = regexp.MustCompile(`\[\d+:\d+\]`)

// others is the part of a reading that was there before us, line by line. While
// IPv6 is forwarded each network has an anycast address, which a sync causes and
// does not make.
func (r reading) others(forwarding bool) []string {
	var lines []string
	for line := range strings.Lines(r.objects + r.ip) {
		f := strings.Fields(counters.ReplaceAllString(line, ""))
		switch {
		case len(f) == 0 || f[0] == "#":
		case ipOurs(f):
		case forwarding && f[0] == "anycast":
		case strings.Contains(line, "KUBE-"):
		case len(f) > 2 && (f[0] == "-A" || f[0] == "-a") && isVirtual(f[1]) && f[2] != foreignVirtual.String():
		default:
			lines = append(lines, strings.Join(f, " "))
		}
	}
	return lines
}

// isVirtual reports whether an option of ipvsadm, which shares -A with iptables,
// names a virtual server.
func isVirtual(option string) bool {
	return option == "-t" || option == "-u" || option == "--sctp-service"
}
