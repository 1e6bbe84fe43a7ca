package commands

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/packaging/docs"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/convert"
)

// onLink is an address of this machine.
type onLink struct {
	netip.Prefix
	link string
}

// takeover is what svcproxy takes over on this machine.
type takeover struct {
	from      convert.Format
	vrrp      *convert.VRRP // keepalived moves addresses, too, and goes on with that
	conf      string        // the file that was written for it; "" if none was
	settings  string        // svcproxy.toml
	tables    []string      // that it has
	announce  config.Announce
	strictARP bool     // svcproxy.toml has it
	vips      []onLink // those of the services that are on links of this machine, other than device
	device    string   // where svcproxy binds them
}

// of takes what the steps depend on from this machine.
func (t *takeover) of(l config.Loaded, settings string, services []sources.Service) {
	t.settings, t.announce, t.device = settings, l.Config.Announce, l.Config.Names().Device
	t.strictARP = l.Config.IPVS.StrictARP
	if t.announce.File == "" {
		t.announce.File = "/run/svcproxy/announced"
	}
	for _, table := range []string{"ipvs", "announce"} {
		if strings.Contains("\n"+string(l.Data), "\n["+table+"]") {
			t.tables = append(t.tables, table)
		}
	}
	t.vips = vipsOn(services, t.device)
}

// keepalivedConf returns what keepalived goes on with, "" if it moves no addresses or not all of its configuration was
// read.
func (t takeover) keepalivedConf() (string, error) {
	if t.vrrp == nil || t.vrrp.Conf == "" {
		return "", nil
	}
	file, err := docs.TrackFile(t.announce.File)
	return file + "\n" + t.vrrp.Conf, err
}

const (
	startSvcproxy = "svcproxy check && systemctl start svcproxy"
	startBeside   = startSvcproxy + "  # while %s runs: virtual servers that are as these services want are not written"
	// If the parent process dies first, its children remove what they made.
	killKeepalived = "pkill -STOP -x keepalived; kill -KILL $(pgrep -x keepalived | sort -rn)"
)

// steps says what to do, in order, so that svcproxy takes the place of the other program and no connection is lost, and
// what gives the place back. A step is a line for a shell, with its reason as a comment.
func (t takeover) steps() (steps, back []string) {
	switch t.from {
	case convert.Keepalived:
		if t.vrrp != nil {
			return t.besideVRRP(), t.backToVRRP()
		}
		steps = []string{
			fmt.Sprintf(startBeside, "keepalived"),
			"systemctl mask keepalived; " + killKeepalived + "  # any other stop removes its virtual servers",
		}
		return append(steps, t.moves()...), []string{
			"systemctl stop svcproxy; systemctl unmask keepalived; systemctl start keepalived  # what the kernel has is " +
				"served meanwhile",
			t.untilOnLinks() + "svcproxy cleanup  # it leaves what the configuration of keepalived has",
		}
	case convert.LDirectord:
		return []string{
			fmt.Sprintf(startBeside, "ldirectord"),
			"systemctl mask ldirectord; pkill -KILL -x ldirectord  # any other stop removes its virtual servers",
		}, nil
	case convert.HAProxy:
		return []string{startSvcproxy + "  # new connections go to the services",
			"# when its connections have ended (ss -tnp): systemctl disable --now haproxy"}, nil
	case convert.Kubernetes:
		return []string{"# stop kube-proxy: what it made goes on serving", startSvcproxy}, nil
	}
	return []string{startSvcproxy, "systemctl disable ipvsadm  # without --now: its stop clears the virtual servers"}, nil
}

// The configuration of keepalived, and its form with virtual servers.
const (
	keepalivedConf = "/etc/keepalived/keepalived.conf"
	confWithIPVS   = keepalivedConf + ".ipvs"
)

// besideVRRP leaves VRRP to keepalived. A start of keepalived removes the VIPs until it is master: routes
// keep them local.
func (t takeover) besideVRRP() []string {
	conf, steps := t.conf, t.announces()
	if conf == "" {
		conf = keepalivedConf + ".vrrp"
		by := "with --write import does it"
		if t.vrrp.Conf == "" {
			by = "import cannot, as it has not read all of it; see /usr/share/doc/svcproxy/examples"
		}
		steps = append(steps, fmt.Sprintf("# write %s: keepalived.conf without virtual servers, following %s (%s)", conf,
			t.announce.File, by))
	}
	steps = append(steps, fmt.Sprintf(startBeside, "keepalived"),
		"cp -p "+keepalivedConf+" "+confWithIPVS+"; mv "+conf+" "+keepalivedConf+
			"  # backup nodes first; stop keepalived on them while you change the master")
	if len(t.vips) > 0 {
		steps = append(steps, t.appendRoutes()+"  # the VIPs stay local while keepalived starts")
	}
	restart := killKeepalived + "; "
	for _, v := range t.vips {
		restart += v.remove() + "; "
	}
	return append(append(steps, restart+"systemctl restart keepalived  # any other stop removes its virtual servers"),
		t.untilMaster()...)
}

// announces writes into svcproxy.toml what keepalived follows, unless it is there.
func (t takeover) announces() []string {
	var commands, keys []string
	if !t.strictARP {
		commands = append(commands, t.sets("ipvs", "strictARP = true"))
	}
	if t.announce.Mode != announce.VRRP {
		keys = append(keys, `mode = "vrrp"`, fmt.Sprintf("file = %q", t.announce.File))
	}
	why := ""
	if n := vipPriority(t.vrrp.Priority); t.vrrp.Quorum && t.announce.VIPPriority < n {
		keys = append(keys, fmt.Sprintf("vipPriority = %d", n))
		why = "  # vipPriority: the same on both nodes, and more than their priorities differ"
	}
	var steps []string
	switch {
	case len(keys) == 0:
	case slices.Contains(t.tables, "announce"): // it may have these keys
		steps = []string{fmt.Sprintf("# set in [announce] of %s: %s%s", t.settings, strings.Join(keys, ", "), why)}
	default:
		commands = append(commands, t.sets("announce", strings.Join(keys, `\n`))+why)
	}
	if len(commands) > 0 {
		steps = append([]string{strings.Join(commands, "; ")}, steps...)
	}
	return steps
}

// sets returns a command that sets keys of a table in svcproxy.toml. They have no apostrophe.
func (t takeover) sets(table, keys string) string {
	if slices.Contains(t.tables, table) {
		return fmt.Sprintf(`sed -i '/^\[%s\]/a %s' %s`, table, keys, t.settings)
	}
	return fmt.Sprintf(`printf '\n[%s]\n%s\n' >>%s`, table, keys, t.settings)
}

// vipPriority returns what a VIP that cannot be served should take from the priority of an instance, so that a peer
// with keepalived's own default of 100 takes over.
func vipPriority(own int) int { return min(max(60, own-90), -announce.PriorityWithdrawn-1) }

// backToVRRP gives the virtual servers back to a keepalived that has the VIPs.
func (t takeover) backToVRRP() []string {
	steps := []string{"systemctl stop svcproxy; mv " + confWithIPVS + " " + keepalivedConf +
		"  # what the kernel has is served meanwhile"}
	if len(t.vips) > 0 {
		steps = append(steps, t.appendRoutes()+"  # as before")
	}
	steps = append(append(steps, "systemctl restart keepalived"), t.untilMaster()...)
	return append(steps, "svcproxy cleanup  # it leaves what the configuration of keepalived has")
}

// appendRoutes keeps the VIPs local. ip prints no protocol for these routes (boot), and one for those of
// svcproxy and of the kernel.
func (t takeover) appendRoutes() string {
	var all []string
	for _, a := range t.addrs() {
		all = append(all, appendRoute(a))
	}
	return strings.Join(all, "; ")
}

// untilMaster waits until keepalived has the VIPs, and removes the routes.
func (t takeover) untilMaster() []string {
	if len(t.vips) == 0 {
		return nil
	}
	var all []string
	for _, a := range t.addrs() {
		all = append(all, deleteRoute(a))
	}
	return []string{t.untilOnLinks() + strings.Join(all, "; ") + "  # keepalived is master again"}
}

// addrs are the VIPs, each once: one may be on several links.
func (t takeover) addrs() (list []netip.Addr) {
	for _, v := range t.vips {
		if !slices.Contains(list, v.Addr()) {
			list = append(list, v.Addr())
		}
	}
	return list
}

func appendRoute(a netip.Addr) string { return fmt.Sprintf("ip route append local %s dev lo", a) }

func deleteRoute(a netip.Addr) string {
	return fmt.Sprintf("ip %s route del local %s dev lo proto boot", familyFlag(a), a)
}

func familyFlag(a netip.Addr) string {
	if a.Is6() {
		return "-6"
	}
	return "-4"
}

func (v onLink) remove() string { return fmt.Sprintf("ip address del %s dev %s", v.Prefix, v.link) }

// moves hands addresses to svcproxy. A route keeps an address local until svcproxy has bound it, as an address or as a
// route.
func (t takeover) moves() (steps []string) {
	for _, v := range t.vips {
		steps = append(steps, appendRoute(v.Addr())+"; "+v.remove()+"  # svcproxy binds it")
	}
	for _, a := range t.addrs() {
		steps = append(steps, fmt.Sprintf("timeout 60 sh -c 'until ip %s route show table local %s | grep -q proto; do "+
			"sleep 1; done' && %s  # if it fails: svcproxy doctor",
			familyFlag(a), a, deleteRoute(a)))
	}
	return steps
}

// untilOnLinks waits until the VIPs are on other links than svcproxy's: keepalived takes seconds until it is master.
func (t takeover) untilOnLinks() string {
	if len(t.vips) == 0 {
		return ""
	}
	var list []string
	for _, a := range t.addrs() {
		list = append(list, a.String())
	}
	return fmt.Sprintf("for a in %s; do timeout 60 sh -c \"until ip -o address | grep -v ' %s ' | grep -qF ' $a/'; do "+
		"sleep 1; done\"; done; ",
		strings.Join(list, " "), t.device)
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
