package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// ConnSync is table ha.sync: the connection sync of IPVS with other nodes.
type ConnSync struct {
	Role      string // off, master, backup or both
	Link      string
	ID        int
	Group     netip.Addr
	Port      int
	TTL       int
	MaxLen    int    // 0 = what fits in the link's MTU
	Threshold string // "" leaves the kernel's value alone
}

// Bounds of a packet's payload. A backup of the kernel takes no less, and no more fits in UDP over IPv6.
const (
	minSyncLen = 1024
	maxSyncLen = 65535 - 48
)

// haFields are the keys of table ha.sync. The defaults are the kernel's.
func haFields() []field {
	return []field{
		define("ha.sync.role", "", zero, `mode ipvs: send connections to other nodes ("master"), take theirs ("backup"), `+
			`or "both"`,
			func(c *Config) *string { return &c.ConnSync.Role }, word("off", "master", "backup", "both"), "off"),
		define("ha.sync.link", "", zero, "the interface of connection sync",
			func(c *Config) *string { return &c.ConnSync.Link }, fields.StringOf(checkInterface), ""),
		define("ha.sync.id", "", zero, "the ID of connection sync: a backup takes connections of its own ID only, with 0 "+
			"of all",
			func(c *Config) *int { return &c.ConnSync.ID }, fields.Int(0, 255), 0),
		define("ha.sync.group", "", zero, "the multicast group of connection sync",
			func(c *Config) *netip.Addr { return &c.ConnSync.Group }, multicast, netip.AddrFrom4([4]byte{224, 0, 0, 81})),
		define("ha.sync.port", "", zero, "the UDP port of connection sync",
			func(c *Config) *int { return &c.ConnSync.Port }, fields.Int(1, 65535), 8848),
		define("ha.sync.ttl", "", zero, "the TTL of packets of connection sync: 1 stays in the link's network",
			func(c *Config) *int { return &c.ConnSync.TTL }, fields.Int(1, 255), 1),
		define("ha.sync.maxLen", "", zero, "the size in bytes of a packet's payload, from 1024; 0: what fits in the link's "+
			"MTU; a daemon that runs keeps its size when this becomes 0",
			func(c *Config) *int { return &c.ConnSync.MaxLen }, fields.Int(0, maxSyncLen), 0),
		define("ha.sync.threshold", "", zero, `after how many packets a connection is sent, and after how many more again, `+
			`such as "3 50"; "" leaves the kernel's value alone`,
			func(c *Config) *string { return &c.ConnSync.Threshold }, fields.StringOf(checkThreshold), ""),
	}
}

var multicast = fields.AddrOf(func(s string) (netip.Addr, error) {
	a, err := parseAddr(s)
	if err == nil && !a.IsMulticast() {
		err = fmt.Errorf("%q is not a multicast group such as %q", s, "224.0.0.81")
	}
	return a, err
})

// checkThreshold accepts what the kernel does (proc_do_sync_threshold).
func checkThreshold(s string) error {
	if s == "" {
		return nil
	}
	first, then, ok := strings.Cut(s, " ")
	n, err := strconv.ParseUint(first, 10, 31)
	period, err2 := strconv.ParseUint(then, 10, 31)
	switch {
	case !ok || err != nil || err2 != nil || s != fmt.Sprintf("%d %d", n, period):
		return fmt.Errorf(`%q is not two numbers of packets such as "3 50"`, s)
	case n >= period && period != 0:
		return fmt.Errorf("%q: the first number must be less than the second", s)
	}
	return nil
}

// checkSync checks the keys of table ha.sync that depend on each other.
func (d *decoder) checkSync() {
	c := &d.config.ConnSync
	on := c.Role != "off"
	switch {
	case on && c.Link == "" && !d.refused["ha.sync.link"]:
		d.refuseAt("ha.sync.role", fmt.Sprintf("ha.sync.role %q needs ha.sync.link", c.Role))
	case on && d.config.Mode != mode.IPVS && d.config.Mode != "":
		d.warn("ha.sync.role", fmt.Sprintf("has no effect in mode %s: only IPVS can sync connections", d.config.Mode))
	case !on && c.Link != "":
		d.warn("ha.sync.link", "has no effect without ha.sync.role")
	}
	if c.MaxLen > 0 && c.MaxLen < minSyncLen {
		d.refuseAt("ha.sync.maxLen", fmt.Sprintf("ha.sync.maxLen = %d is less than %d, the least that a backup takes (0: "+
			"what fits in the link's MTU)", c.MaxLen, minSyncLen))
	}
}

// daemons returns what connection sync needs in the kernel, sorted.
func (c ConnSync) daemons() []kernel.SyncDaemon {
	var all []kernel.SyncDaemon
	for _, r := range [...]kernel.SyncRole{kernel.SyncMaster, kernel.SyncBackup} {
		if c.Role == "both" || c.Role == r.String() {
			all = append(all, kernel.SyncDaemon{
				Role: r, Link: c.Link, ID: uint8(c.ID), MaxLen: uint16(c.MaxLen), Group: c.Group, Port: uint16(c.Port),
				TTL: uint8(c.TTL),
			})
		}
	}
	return all
}
