package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// duplicate reports VIPs that another host has.
func duplicate(f *Facts) (list []Finding) {
	for _, t := range f.Taken {
		list = append(list, one("clients on that link reach one of the two hosts, by chance",
			fmt.Sprintf("take %s from that host; a real server of direct routing needs arp_ignore=1 and arp_announce=2", t.Addr),
			"another host, %s on %s, answers for the VIP %s", t.MAC, t.Link, t.Addr)...)
	}
	return list
}

// firewall reports base chains that no packet to some virtual server passes.
func firewall(f *Facts) (list []Finding) {
	if f.Kernel == nil || f.Want == nil {
		return nil
	}
	var byRules []kernel.VirtualKey
	if (f.Mode == sources.ModeIPTables || f.Mode == sources.ModeNFTables) && f.Fronts != nil {
		byRules = f.Fronts.Elsewhere()
	}
	for _, line := range packet.Blocked(f.Kernel, f.Want, byRules) {
		list = append(list, one("clients get no connection", status.BarredMend(f.Mode),
			"%s", line)...)
	}
	return list
}

// backEnds reports our chains, or kube-proxy's, in the back end of iptables that svcproxy does not write.
func backEnds(f *Facts) (list []Finding) {
	if f.Kernel == nil {
		return nil
	}
	for _, line := range kernel.OtherLines(f.Kernel.Others) {
		mend := "start svcproxy, which removes them; or svcproxy cleanup --leftovers, which ends all service"
		if f.Status != nil {
			mend = "svcproxy reload --wait; if another program writes them, stop that one"
		}
		list = append(list, one("they serve removed services, and clients outside of source ranges", mend, "%s", line)...)
	}
	return list
}

// balancers are programs that always write into IPVS, with the command that ends them.
var balancers = []struct{ name, mend string }{
	{"kube-proxy", "stop kube-proxy on this node"},
	{"ldirectord", "systemctl disable --now ldirectord"},
}

// partly are programs that may run without IPVS, keepalived for VRRP and kube-router for BGP and
// policies, with what ends their virtual servers.
var partly = []struct{ name, mend string }{
	{"keepalived", "take virtual_server out of keepalived.conf (svcproxy import reads it)"},
	{"kube-router", "run kube-router with --run-service-proxy=false, then ipvsadm -D for each"},
}

// others reports programs that own IPVS objects. Those of partly count only with virtual servers
// that svcproxy did not make.
func others(f *Facts) (list []Finding) {
	const why = "two programs that write one table undo what the other does"
	if !f.Configured {
		return nil
	}
	for _, b := range balancers {
		if p := f.programs(b.name); len(p) > 0 {
			list = append(list, one(why, b.mend, "%s runs on this node (process %d)", b.name, p[0].PID)...)
		}
	}
	if len(f.Foreign) == 0 {
		return list
	}
	var names []string
	for _, k := range f.Foreign {
		names = append(names, k.String())
	}
	by, mend := "another program", "find the program and stop it; then ipvsadm -D for each, or add their networks to "+
		"ipvs.excludeCIDRs"
	for _, b := range partly {
		if p := f.programs(b.name); len(p) > 0 {
			by, mend = fmt.Sprintf("%s (process %d)", b.name, p[0].PID), b.mend+", or add their networks to ipvs.excludeCIDRs"
			break
		}
	}
	return append(list, one("svcproxy leaves them alone: nothing checks or drains their real servers", mend,
		"%s made virtual servers: %s", by, few(names))...)
}

// routes reports backends that cannot be reached from here.
func routes(f *Facts) []Finding {
	var noRoute, noNeighbour []string
	first := ""
	for _, b := range f.Backends {
		name := fmt.Sprintf("%s of %s", b.Addr, b.Service)
		switch b.Hop.Kind {
		case "", kernel.LocalRoute:
		case kernel.Unicast:
			if b.Hop.Neighbor == "failed" {
				noNeighbour = append(noNeighbour, name+" on "+b.Hop.Link)
			}
		default:
			first = cmp.Or(first, b.Addr.String())
			noRoute = append(noRoute, fmt.Sprintf("%s (%s)", name, b.Hop.Kind))
		}
	}
	var list []Finding
	if len(noRoute) > 0 {
		list = one("connections to them fail", "ip route get "+first+"; then add the route",
			"no route leads to a backend: %s", few(noRoute))
	}
	if len(noNeighbour) > 0 {
		list = append(list, one("connections to them fail",
			"start the host, or correct its address; ip neigh shows the entry",
			"a backend does not answer ARP or neighbour discovery: %s", few(noNeighbour))...)
	}
	if len(f.Closed) > 0 {
		list = append(list, one("their share of the connections fails, and no health check takes them out",
			"start the server or correct its port; healthCheck = \"tcp\" in the service takes out what is down",
			"an endpoint takes no connection: %s", few(f.Closed))...)
	}
	return list
}

// vips reports VIPs and virtual servers that the kernel lacks.
func vips(f *Facts) []Finding {
	if f.Kernel == nil || f.Fronts == nil || f.Want == nil || f.Mode == sources.ModeUserspace {
		return nil
	}
	var missing []string
	for _, v := range f.Fronts.VIPs() {
		taken := slices.ContainsFunc(f.Taken, func(t kernel.Taken) bool { return t.Addr == v.Addr })
		if v.Traits.Has(frontend.Bound) && !f.Kernel.IsLocal(v.Addr) && !f.Kernel.Node.Has(v.Addr) && !taken {
			missing = append(missing, "VIP "+v.Addr.String())
		}
	}
	for i := range f.Want.Virtuals {
		k := f.Want.Virtuals[i].Key
		if _, found := kernel.FindVirtual(f.Kernel.Virtuals, k); !found {
			missing = append(missing, "virtual server "+k.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	mend := "svcproxy reload --wait"
	if f.Status == nil {
		mend = "systemctl restart svcproxy"
	}
	return one("clients of these get no connection", mend, "the kernel lacks %s", few(missing))
}

// packets reports addresses that explain follows a packet to in vain.
func packets(f *Facts) (list []Finding) {
	for _, l := range f.Lost {
		list = append(list, one("clients get no connection",
			"correct what that names; svcproxy explain "+l.Target+" shows the steps before it", "%s: %s", l.Target, l.Why)...)
	}
	return list
}
