package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// check checks fields that depend on each other, and warns of those without effect.
func (d *decoder) check() {
	c := &d.config
	// As in kube-proxy, periods of another mode than the configured one are not compared.
	if c.Mode != mode.IPVS && c.IPTables.MinSyncPeriod > c.IPTables.SyncPeriod {
		d.conflict("iptables.minSyncPeriod", "iptables.syncPeriod", "must not be longer than")
	}
	if (c.Mode == mode.IPVS || c.Mode == "") && c.IPVS.MinSyncPeriod > c.IPVS.SyncPeriod {
		d.conflict("ipvs.minSyncPeriod", "ipvs.syncPeriod", "must not be longer than")
	}
	d.warnOfUpstream()
	d.needs("BridgeInterface", "detectLocal.bridgeInterface", c.BridgeInterface)
	d.needs("InterfaceNamePrefix", "detectLocal.interfaceNamePrefix", c.InterfaceNamePrefix)
	if c.DetectLocalMode == string(mode.DetectNodeCIDR) {
		d.warnOfMore(c.Node.LocalCIDRs)
	}
	if len(c.IPVS.ExcludeCIDRs) > 0 && !c.IPVS.DeleteUnknown {
		d.warn("ipvs.excludeCIDRs", "has no effect without ipvs.deleteUnknown = true: foreign virtual servers stay anyway")
	}
	if c.IPTables.LocalhostNodePorts && c.Mode != mode.IPTables {
		d.warn("iptables.localhostNodePorts", `has an effect only in mode iptables: in others loopback addresses do not `+
			`serve node ports`)
	}
	if c.NFTables.Flowtable && c.Mode != mode.NFTables && !d.refused["mode"] {
		d.refuseAt("nftables.flowtable", `nftables.flowtable needs mode = "nftables": the other modes have no flowtable`)
	}
	d.checkAPIServer()
	d.checkHealth()
	d.checkSync()
	d.checkAnnounce()
	d.checkNotify()
	d.warnIdle()
	for _, gate := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		d.warn("featureGates", fmt.Sprintf("gate %s is not known here and has no effect", spelt(gate)))
	}
}

// warnOfUpstream warns of what a KubeProxyConfiguration leaves to defaults that have another meaning here.
// One that svcproxy wrote means ours.
func (d *decoder) warnOfUpstream() {
	c := &d.config
	if d.upstream.mode > 0 && c.Mode == "" {
		d.warnAt(d.upstream.mode, `mode "" is iptables for kube-proxy, and here this kernel's best one, ipvs where it has `+
			`that: write mode: iptables to keep it`)
	}
	_, flag := d.origins["iptables.localhostNodePorts"]
	asked := c.Mode == mode.IPTables || c.Mode == "" && d.upstream.mode > 0
	if d.upstream.localhost > 0 && asked && !flag && c.NodePortAddresses.hasLoopback() {
		d.warnAt(d.upstream.localhost, "iptables.localhostNodePorts is not set, which is true for kube-proxy and false "+
			"here: 127.0.0.1 does not serve node ports; "+
			"in mode iptables localhostNodePorts: true makes it, and sets route_localnet")
	}
}

// warnOfMore warns of a second CIDR of a family: rules match traffic of this node's workloads by one network.
func (d *decoder) warnOfMore(cidrs []netip.Prefix) {
	first := map[bool]netip.Prefix{} // by whether it is IPv4
	for _, c := range cidrs {
		is4 := c.Addr().Is4()
		if have, more := first[is4]; more {
			d.warn("node.localCIDRs", fmt.Sprintf(`has several of one family: detectLocalMode = "NodeCIDR" takes the first, `+
				`%s: traffic from %s is masqueraded like that of other hosts`, have, c))
			return
		}
		first[is4] = c
	}
}

// checkAPIServer enables the API server source if a kubeconfig or master is given,
// as in kube-proxy, unless the file sets sources.apiserver.enabled itself.
func (d *decoder) checkAPIServer() {
	c := &d.config
	_, given := d.origins["sources.apiserver.enabled"]
	switch reached := c.ClientConnection.Kubeconfig != "" || c.ClientConnection.Master != ""; {
	case reached && !given:
		c.APIServer.Enabled = true
	case reached && !c.APIServer.Enabled:
		d.warn("sources.apiserver.enabled", "= false leaves the API server alone, whatever is said of how to reach it")
	}
}

// warnIdle warns of an idle key that has another value than its default.
func (d *decoder) warnIdle() {
	defaults := Default()
	for i := range allFields {
		f := &allFields[i]
		if _, given := d.origins[f.key]; f.is(idle) && given && !d.refused[f.key] && f.toml(&d.config) != f.toml(&defaults) {
			d.warn(f.key, "has no effect in this version")
		}
	}
}

// conflict refuses key because of the value of other. One of them may have its
// default: the line is that of the one that was given.
func (d *decoder) conflict(key, other, relation string) {
	if d.refused[key] || d.refused[other] {
		return
	}
	at := key
	if _, given := d.origins[key]; !given {
		at = other
	}
	a, b := fieldOf(key), fieldOf(other)
	d.refuseAt(at, fmt.Sprintf("%s = %s %s %s = %s", key, a.toml(&d.config), relation, other, b.toml(&d.config)))
}

// needs refuses a detectLocalMode without its interface, and warns of an
// interface without its mode.
func (d *decoder) needs(mode, key, value string) {
	chosen := d.config.DetectLocalMode == mode
	switch {
	case chosen && value == "" && !d.refused[key]:
		d.refuseAt("detectLocalMode", fmt.Sprintf("detectLocalMode %q needs %s", mode, key))
	case !chosen && value != "":
		d.warn(key, fmt.Sprintf("has no effect without detectLocalMode = %q", mode))
	}
}

func (d *decoder) refuseAt(key, message string) {
	d.problems = append(d.problems, d.at(key, message))
}

func (d *decoder) warn(key, message string) {
	o := d.origins[key]
	name := key
	if o.flag != "" {
		name = o.flag
	}
	d.warnings = append(d.warnings, d.at(key, name+" "+message))
}

// at is a problem where key was given.
func (d *decoder) at(key, message string) sources.Problem {
	o := d.origins[key]
	if o.flag != "" {
		return sources.Problem{Message: message}
	}
	return problemAt(d.file, o.line, "%s", message)
}
