package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// modules reports modules that are missing, or that a boot does not load.
func modules(f *Facts) (list []Finding) {
	m := f.Machine.Modules
	for _, missing := range f.Missing {
		mend := missing.Hint
		switch {
		case f.Machine.Unbooted:
			mend = "reboot"
		case f.lacksExtras() && !f.Native && (f.Mode == sources.ModeIPVS || f.Mode == sources.ModeIPTables):
			mend = extras
			if f.Mode == sources.ModeIPVS {
				mend += `, or rules.backend = "nftables", which needs none of them`
			}
		}
		list = append(list, one("svcproxy cannot serve in mode "+f.Mode, mend, "%s", missing.What)...)
	}
	for _, name := range sortedUnique(f.schedulers()) {
		module := "ip_vs_" + name
		switch {
		case m.Loaded[module] || name == "":
		case f.Machine.Unbooted:
			list = append(list, one("the kernel cannot load what it needs later", "reboot",
				"kernel %s runs, and an upgrade removed its modules, of which %s is not loaded", f.Machine.Release, module)...)
		case m.Known && !m.Files[module]:
			list = append(list, one("services with this scheduler are not served", "choose another scheduler, or install the "+
				"package with "+module,
				"kernel %s has no scheduler %s", f.Machine.Release, name)...)
		case name == "lblc" || name == "lblcr":
			list = append(list, one("loaded on demand it can hang IPVS and all network namespaces for ever, so svcproxy does "+
				"not use it",
				"modprobe "+module+" && echo "+module+" > /etc/modules-load.d/"+module+
					".conf", "the scheduler %s is not loaded", name)...)
		}
	}
	if f.Mode == sources.ModeUserspace || !f.Configured {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(m.Barred)) {
		if slices.Contains(machine.Needed(f.Mode, f.Native), name) && !slices.Contains(machine.Optional, name) {
			list = append(list, one("after a boot svcproxy cannot serve", "take "+name+" out of "+m.Barred[name],
				"%s keeps module %s from being loaded", m.Barred[name], name)...)
		}
	}
	return list
}

// extras brings the modules of iptables and ipset on RHEL 10 and its like. The package without a release is that of the
// newest kernel.
const extras = "dnf install kernel-modules-extra-$(uname -r)"

// lacksExtras reports whether this is RHEL 10 or its like without the modules of iptables and ipset.
func (f *Facts) lacksExtras() bool {
	m := f.Machine.Modules
	return strings.Contains(f.Machine.Release, ".el1") && m.Known && (!m.Files["ip_set"] || !m.Files["xt_conntrack"])
}

// schedulers lists those of the wanted virtual servers.
func (f *Facts) schedulers() (names []string) {
	if f.Want == nil || f.Mode == sources.ModeUserspace {
		return nil
	}
	for i := range f.Want.Virtuals {
		names = append(names, f.Want.Virtuals[i].Scheduler)
	}
	return names
}

// release reports faults of kernel releases that the configuration provokes.
func release(f *Facts) []Finding {
	if f.Kernel == nil || f.Mode != sources.ModeIPVS {
		return nil
	}
	reuse, known := f.number("net.ipv4.vs.conn_reuse_mode")
	if known && reuse != 0 && f.Kernel.Node.Release != (kernel.Release{}) && f.Kernel.Node.Release.Before(5, 9) &&
		!f.Kernel.Node.Release.Before(4, 1) {
		return one("a client that reuses a port waits a second for its connection", "sysctl -w net.ipv4.vs.conn_reuse_mode=0",
			"kernel %s delays connections from reused ports (conn_reuse_mode is %d; fixed in 5.9)", f.Machine.Release, reuse)
	}
	return nil
}

// forwarding reports that packets do not pass this node.
func forwarding(f *Facts) (list []Finding) {
	if f.Mode == sources.ModeUserspace {
		return nil
	}
	for _, c := range []struct {
		family     kernel.Family
		name, word string
	}{{kernel.IPv4, "net.ipv4.ip_forward", "IPv4"}, {kernel.IPv6, kernel.ForwardingIPv6, "IPv6"}} {
		remote := slices.DeleteFunc(f.remote(c.family), func(b Backend) bool { return !b.translated() })
		if len(remote) == 0 {
			continue
		}
		if f.off(c.name) {
			list = append(list, one("replies of backends do not get back to clients over "+c.word, "sysctl -w "+c.name+"=1",
				"the kernel does not forward: %s is 0", c.name)...)
			continue
		}
		var links []string
		for _, b := range remote {
			if c.family == kernel.IPv4 && f.ofLink(b.Hop.Link, "forwarding") == "0" {
				links = append(links, b.Hop.Link)
			}
		}
		for _, l := range sortedUnique(links) {
			name := linkSysctl(l, "forwarding")
			list = append(list, one("replies of the backends there do not get back to clients", setSysctl(name, "1"),
				"the kernel does not forward what comes in by %s: %s is 0", l, name)...)
		}
	}
	return list
}

// strays is how many packets the check of sources must drop in the window. A few with forged sources
// reach every public link.
const strays = 10

// rpFilter reports packets that the check of sources drops. Where it is strict, the way back to a
// client must leave by the link that the client's packets come in by.
func rpFilter(f *Facts) []Finding {
	n := f.moved(func(c machine.Counters) uint64 { return c.RPFilter })
	if n < strays || !f.Configured {
		return nil
	}
	var strict []string
	for _, l := range f.Machine.Links {
		if max(f.Machine.Sysctls["net.ipv4.conf.all.rp_filter"], f.ofLink(l.Name, "rp_filter")) == "1" && !l.Loopback &&
			l.Up {
			strict = append(strict, l.Name)
		}
	}
	mend := "add the route by which the source is reached; ip route get SOURCE shows the one that is there"
	if len(strict) > 0 {
		mend = "add the route by which the source is reached, or sysctl -w net.ipv4.conf.all.rp_filter=2, which also lets " +
			"forged sources in"
	}
	return one("clients and backends whose way back leaves by another link get no answer", mend,
		"rp_filter dropped %s in %s (strict on %s)", sources.Count(n, "packet"), f.Machine.Window, listOr(strict, "no link"))
}

// arp reports that no host learns from this node where a VIP is, though it is in the network of a
// link. ipvs.strictARP asks for that.
func arp(f *Facts) []Finding {
	if f.Want == nil || f.Kernel == nil {
		return nil
	}
	ignored := map[string][]string{}
	for _, c := range f.Want.Policy.Claims {
		if c.Addr.Is4() && f.Kernel.Node.LinkOf(c.Addr) == "" &&
			max(f.Machine.Sysctls["net.ipv4.conf.all.arp_ignore"], f.ofLink(c.Link, "arp_ignore")) > "0" {
			ignored[c.Link] = append(ignored[c.Link], c.Addr.String())
		}
	}
	var list []Finding
	for _, link := range slices.Sorted(maps.Keys(ignored)) {
		list = append(list, one("hosts on that link cannot find the VIP",
			"sysctl -w net.ipv4.conf.all.arp_ignore=0 "+linkSysctl(link, "arp_ignore")+"=0",
			"arp_ignore keeps this node from answering ARP for %s on %s", few(sortedUnique(ignored[link])), link)...)
	}
	return list
}

func conntrack(f *Facts) []Finding {
	text, mend := f.Machine.After.Conntrack.Trouble(f.Machine.Before.Conntrack, f.Machine.Window)
	if f.Status != nil { // what the running svcproxy saw in a longer window
		for _, c := range f.Status.Conditions {
			if c.Kind == condition.ConntrackFull {
				text, mend = c.Text, c.Hint
			}
		}
	}
	if text == "" {
		return nil
	}
	return one(condition.ConntrackFull.Meaning(), mend, "%s", text)
}

// chain is how many connections a bucket of IPVS may have on average.
const chain = 8

func connTable(f *Facts) []Finding {
	if f.Kernel == nil || f.Machine.ConnTabBits == 0 {
		return nil
	}
	conns := 0
	for _, c := range f.Kernel.Conns {
		conns += int(c.Active) + int(c.Inactive) + int(c.Persist)
	}
	bits := f.Machine.ConnTabBits
	if conns <= chain<<bits {
		return nil
	}
	want := bits
	for conns > 1<<want && want < 20 {
		want++
	}
	if want == bits {
		return nil // it cannot be larger
	}
	return one("each packet walks a chain of connections, which costs processor time",
		fmt.Sprintf("echo 'options ip_vs conn_tab_bits=%d' > /etc/modprobe.d/svcproxy.conf, and reboot", want),
		"%d connections are in an IPVS table of %d buckets (conn_tab_bits is %d)", conns, 1<<bits, bits)
}

// sysctls reports parameters that are not as svcproxy wants them.
func sysctls(f *Facts) (list []Finding) {
	if f.Want == nil || f.Kernel == nil {
		return nil
	}
	for _, w := range f.Want.Sysctls {
		i, found := slices.BinarySearchFunc(f.Kernel.Sysctls, w, kernel.Sysctl.Compare)
		if !found || f.Kernel.Sysctls[i].Value == w.Value || w.AtLeast || w.Over != "" {
			continue
		}
		list = append(list, one("services do not work as configured", setSysctl(w.Name, w.Value), "%s is %s, and svcproxy "+
			"wants %s", w.Name, f.Kernel.Sysctls[i].Value, w.Value)...)
	}
	return list
}

// mtu reports links that are too small for what tunnels send.
func mtu(f *Facts) []Finding {
	largest := f.clientMTU()
	var small []string
	tunnels := false
	for _, b := range f.Backends {
		if !b.tunnelled() || b.Hop.Kind != kernel.Unicast {
			continue
		}
		tunnels = true
		if has := f.linkMTU(b.Hop.Link); has > 0 && has < largest {
			small = append(small, fmt.Sprintf("%s (%d, of which a tunnel needs %d)", b.Hop.Link, has,
				b.Forward.Overhead(b.Addr.Is6())))
		}
	}
	switch {
	case len(small) > 0:
		return one("large packets do not fit into the tunnel; where ICMP is filtered, connections hang after the first bytes",
			"raise the MTU of the link, or have backends announce a smaller MSS",
			"the link to a tunnel's backend is smaller than the clients' of %d: %s", largest, few(sortedUnique(small)))
	case tunnels && f.off("net.ipv4.vs.pmtu_disc"):
		return one("clients do not learn the MTU of tunnels, and connections hang after the first bytes",
			"sysctl -w net.ipv4.vs.pmtu_disc=1", "net.ipv4.vs.pmtu_disc is 0, and services use tunnels")
	}
	return nil
}

// clientMTU is the largest MTU of the links by which clients come in: those of the default routes,
// and those on which the VIPs are.
func (f *Facts) clientMTU() (largest int) {
	if f.Kernel == nil || f.Want == nil {
		return 0
	}
	n := f.Kernel.Node
	links := []string{n.LinkOf(n.Primary4), n.LinkOf(n.Primary6)}
	for _, c := range f.Want.Policy.Claims {
		links = append(links, c.Link)
	}
	for _, l := range links {
		largest = max(largest, f.linkMTU(l))
	}
	return largest
}

// few packets of a full backlog are lost on every busy machine.
const backlog = 100

// drops reports counters that move.
func drops(f *Facts) (list []Finding) {
	if n := f.moved(func(c machine.Counters) uint64 { return c.Backlog }); n >= backlog {
		list = one("these packets are lost, of every service",
			"sysctl -w net.core.netdev_max_backlog=10000, and spread interrupts over processors",
			"the kernel dropped %d packets in %s because a processor's queue was full", n, f.Machine.Window)
	}
	if !f.Configured || f.Status == nil || f.Status.Totals.Empty == 0 {
		return list
	}
	if n := f.moved(func(c machine.Counters) uint64 { return c.Refused }); n > 0 {
		var empty []string
		for i := range f.Status.Services {
			if s := &f.Status.Services[i]; s.State == status.NoBackends {
				empty = append(empty, s.Name+" ("+s.Reason+")")
			}
		}
		list = append(list, one("clients of these services get an error",
			"start endpoints of "+listOr(empty, "these services"),
			"%s without backends, and packets are refused: %d in %s", sources.Count(uint64(f.Status.Totals.Empty), "service"), n,
			f.Machine.Window)...)
	}
	return list
}

func listOr(words []string, none string) string {
	if len(words) == 0 {
		return none
	}
	return few(words)
}
