package commands

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/convert"
)

// onLink is an address of this machine.
type onLink struct {
	netip.Prefix
	link string
}

// takeOver says what to do, in order, so that svcproxy takes the place of another program and no connection is lost, and
// what gives the place back. A step is a line for a shell, with its reason as a comment. vips are those addresses of the
// services that are on links of this machine, other than device, where svcproxy binds them.
func takeOver(from convert.Format, vips []onLink, device string) (steps, back []string) {
	const start = "svcproxy check && systemctl start svcproxy"
	const adopts = start + "  # while %s runs: virtual servers that are as these services want are not written"
	switch from {
	case convert.Keepalived:
		steps = []string{
			fmt.Sprintf(adopts, "keepalived"),
			"systemctl mask keepalived; pkill -STOP -x keepalived; kill -KILL $(pgrep -x keepalived | sort -rn)  # any other stop removes its virtual servers and VIPs. If it has VRRP peers, take the backups over first",
		}
		return append(steps, moves(vips)...), []string{
			"systemctl stop svcproxy; systemctl unmask keepalived; systemctl start keepalived  # what the kernel has is served meanwhile",
			movedBack(vips, device) + "svcproxy cleanup  # once keepalived has its VIPs again. It leaves what the configuration of keepalived has",
		}
	case convert.LDirectord:
		return []string{
			fmt.Sprintf(adopts, "ldirectord"),
			"systemctl mask ldirectord; pkill -KILL -x ldirectord  # any other stop removes its virtual servers",
		}, nil
	case convert.HAProxy:
		return []string{start + "  # new connections go to the services", "# when its connections have ended (ss -tnp): systemctl disable --now haproxy"}, nil
	case convert.Kubernetes:
		return []string{"# stop kube-proxy: what it made goes on serving", start}, nil
	}
	return []string{start, "systemctl disable ipvsadm  # without --now: its stop clears the virtual servers"}, nil
}

// moves hands addresses to svcproxy. A route keeps an address local until svcproxy has bound it, as an address or as a
// route. ip prints no protocol for the route of the step (boot), and one for those of svcproxy and of the kernel.
func moves(vips []onLink) (steps []string) {
	for _, v := range vips { // one may be on several links
		steps = append(steps, fmt.Sprintf("ip route append local %s dev lo; ip address del %s dev %s  # svcproxy binds it", v.Addr(), v.Prefix, v.link))
	}
	waits := map[netip.Addr]bool{}
	for _, v := range vips {
		a, family := v.Addr(), "-4"
		if a.Is6() {
			family = "-6"
		}
		if !waits[a] {
			waits[a] = true
			steps = append(steps, fmt.Sprintf("timeout 60 sh -c 'until ip %[2]s route show table local %[1]s | grep -q proto; do sleep 1; done' && "+
				"ip %[2]s route del local %[1]s dev lo proto boot  # if it fails: svcproxy doctor", a, family))
		}
	}
	return steps
}

// movedBack waits until addresses are on other links than svcproxy's: keepalived takes seconds until it is master.
func movedBack(vips []onLink, device string) string {
	if len(vips) == 0 {
		return ""
	}
	var list []string
	for _, v := range vips {
		list = append(list, v.Addr().String())
	}
	return fmt.Sprintf("for a in %s; do timeout 60 sh -c \"until ip -o address | grep -v ' %s ' | grep -qF ' $a/'; do sleep 1; done\"; done; ",
		strings.Join(list, " "), device)
}

// runs returns the format of the program that makes virtual servers on this machine.
func runs(list []machine.Process) convert.Format {
	for _, p := range []struct {
		name string
		convert.Format
	}{{"keepalived", convert.Keepalived}, {"ldirectord", convert.LDirectord}, {"kube-proxy", convert.Kubernetes}} {
		if slices.ContainsFunc(list, func(x machine.Process) bool { return x.Name == p.name }) {
			return p.Format
		}
	}
	return convert.IPVSAdm
}

// vipsOn returns the VIPs of services that are on links of this machine, but for the device of our own.
func vipsOn(services []sources.Service, device string) (list []onLink) {
	wanted := map[netip.Addr]bool{}
	for i := range services {
		for _, a := range services[i].VIPs {
			wanted[a] = true
		}
	}
	links, _ := net.Interfaces()
	for _, l := range links {
		addrs, _ := l.Addrs()
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			// One that comes with a network may be the host's own. It is served where it is.
			if err == nil && wanted[p.Addr()] && p.IsSingleIP() && l.Name != device {
				list = append(list, onLink{p, l.Name})
			}
		}
	}
	return list
}
