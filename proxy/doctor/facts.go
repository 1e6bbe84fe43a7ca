package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// Facts are what the checks look at. A field that is zero is not known, and no check complains
// about it.
type Facts struct {
	Machine machine.Facts
	Mode    string // in use, or the one that a start would use
	Native  bool   // nftables writes its rules, or would

	Configured bool
	// Refused says what is wrong with the configuration, one line each.
	Refused []string
	Hint    string // what mends that

	Status *status.Status // with health; nil if svcproxy does not answer
	UserID int            // that svcproxy runs as; -1 if it is not known
	// NoAnswer says that svcproxy does not answer, and why; "" if it does, or could not be asked.
	NoAnswer string

	// Kernel is nil if it was not read, Missing what it lacks for the mode.
	Kernel  *kernel.Observed
	Missing []*kernel.MissingError
	// Foreign lists virtual servers that svcproxy neither made nor wants.
	Foreign []kernel.VirtualKey
	// Want is the wanted state of the kernel, Fronts what is served; nil if they are not known.
	Want   *kernel.State
	Fronts *frontend.Frontends
	// Backends are the addresses of endpoints with the way to them.
	Backends []Backend
	// Unserved lists services that files have otherwise than svcproxy serves them.
	Unserved []string
	// Taken lists the VIPs that another host answered for; nil if none was asked.
	Taken []kernel.Taken
	// Closed lists endpoints that no health check covers and that take no connection from here, with the error; nil if
	// none was tried.
	Closed []string
	// Lost are the first lines of explain about addresses that no backend serves.
	Lost []Lost

	Warnings  []string // about the configuration and the services
	Unchecked []Unchecked
}

// Backend is an address that gets connections, with the way to it.
type Backend struct {
	Addr    netip.Addr
	Forward sources.Forward
	Hop     kernel.Hop
	Service string // one that has it
}

// Lost is an address and port that clients ask in vain.
type Lost struct {
	Target string // "tcp 203.0.113.9:80"
	Why    string
}

// Sysctls are the kernel parameters that the checks look at, besides those of links.
func Sysctls() []string {
	return []string{
		"net.ipv4.ip_forward", kernel.ForwardingIPv6,
		"net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce",
		"net.ipv4.vs.conn_reuse_mode", "net.ipv4.vs.pmtu_disc",
	}
}

// number returns a kernel parameter as a number; false if it is not known.
func (f *Facts) number(name string) (uint64, bool) {
	n, err := strconv.ParseUint(f.Machine.Sysctls[name], 10, 64)
	return n, err == nil
}

// off reports whether a kernel parameter is known to be 0.
func (f *Facts) off(name string) bool { return f.Machine.Sysctls[name] == "0" }

// ofLink returns the kernel parameter of a link, "" if it is not known.
func (f *Facts) ofLink(link, name string) string { return f.Machine.Sysctls[linkSysctl(link, name)] }

// linkSysctl names the kernel parameter of a link. As in sysctl(8), a slash stands for a dot of the
// link's name: net.ipv4.conf.eth0/100.forwarding.
func linkSysctl(link, name string) string {
	return "net.ipv4.conf." + strings.ReplaceAll(link, ".", "/") + "." + name
}

// setSysctl is the command that sets a kernel parameter.
func setSysctl(name, value string) string {
	assignment := name + "=" + value
	if strings.ContainsAny(value, " \t") {
		assignment = "'" + assignment + "'"
	}
	return "sysctl -w " + assignment
}

// linkMTU returns the MTU of a link, 0 if it is not known.
func (f *Facts) linkMTU(name string) int {
	i := slices.IndexFunc(f.Machine.Links, func(l machine.Link) bool { return l.Name == name })
	if i < 0 {
		return 0
	}
	return f.Machine.Links[i].MTU
}

// remote lists the backends of a family on other hosts.
func (f *Facts) remote(family kernel.Family) (list []Backend) {
	for _, b := range f.Backends {
		if kernel.FamilyOf(b.Addr) == family && b.Hop.Kind == kernel.Unicast {
			list = append(list, b)
		}
	}
	return list
}

// translated reports whether packets to a backend get another destination, so that replies
// pass this node.
func (b Backend) translated() bool { return b.Forward == "" || b.Forward == sources.Masquerade }

// tunnelled reports whether packets to a backend are wrapped.
func (b Backend) tunnelled() bool { return !b.translated() && b.Forward != sources.Direct }

// moved returns by how much a counter grew in the window.
func (f *Facts) moved(of func(machine.Counters) uint64) uint64 {
	before, after := of(f.Machine.Before), of(f.Machine.After)
	if after < before {
		return 0
	}
	return after - before
}

// versions are those of the programs that serve, as far as they are known.
func (f *Facts) versions() []string {
	list := []string{}
	if f.Status != nil {
		list = append(list, "svcproxy "+f.Status.Daemon.Version, f.Status.Daemon.IPTables)
	}
	if f.Machine.Release != "" {
		list = append(list, "Linux "+f.Machine.Release)
	}
	return slices.DeleteFunc(list, func(v string) bool { return v == "" })
}

// notes are what is worth knowing and not wrong.
func (f *Facts) notes() []string {
	notes := append([]string{}, f.Warnings...)
	if strings.HasPrefix(f.Machine.Release, "6.12.") {
		notes = append(notes, "kernel 6.12 was seen to panic in ip_vs_estimation when network namespaces with IPVS end; "+
			"install its latest update")
	}
	if f.Native && f.lacksExtras() {
		notes = append(notes, "this kernel has no modules of iptables and ipset, and nftables, which serves, needs none: "+
			extras+" brings them")
	}
	var behind []string
	for _, b := range f.Backends {
		if b.Forward == sources.Direct && b.Hop.Gateway.IsValid() {
			behind = append(behind, fmt.Sprintf("%s of %s behind %s", b.Addr, b.Service, b.Hop.Gateway))
		}
	}
	if len(behind) > 0 {
		notes = append(notes, "direct routing hands packets to the gateway of a backend, which must have the VIPs itself: "+
			few(behind))
	}
	if f.Status != nil {
		for i, w := range f.Status.Warnings {
			if i >= f.Status.Totals.Barred { // the others are findings
				notes = append(notes, w)
			}
		}
	}
	return slices.Compact(sortedUnique(notes))
}
