package config

import (
	"fmt"
	"math"
	"time"

	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// Announce is table announce: how routing daemons are told which VIPs this node serves.
type Announce struct {
	Mode                announce.Mode
	Table               int // 0 = main
	Metric, DrainMetric int
	DrainTime           time.Duration
	MinHealthy          fields.Amount
	Require             announce.Require
	HoldUp              time.Duration
	WithdrawWait        time.Duration
	VIPPriority         int
	File                string // "" = none
}

// Numbers of routing tables, of linux/rtnetlink.h.
const (
	mainTable  = 254
	localTable = 255
)

// ForAnnounce returns what the decision about announcements needs.
func (c Config) ForAnnounce() announce.Config {
	a := c.Announce
	return announce.Config{
		Mode: a.Mode, Table: a.RouteTable(), Metric: uint32(a.Metric), DrainMetric: uint32(a.DrainMetric),
		MinHealthy: a.MinHealthy.N, MinHealthyPercent: a.MinHealthy.Percent,
		Require: a.Require, HoldUp: a.HoldUp, DrainTime: a.DrainTime, WithdrawWait: a.WithdrawWait,
		VIPPriority: a.VIPPriority,
	}
}

// RouteTable returns the number that the kernel has for the table.
func (a Announce) RouteTable() uint32 {
	if a.Table == 0 {
		return mainTable
	}
	return uint32(a.Table)
}

var metrics = fields.Int(1, math.MaxInt32)

var announceFields = []field{
	define("announce.mode", "", zero, `tell routing daemons which VIPs this node can serve: "routes" in a table of the `+
		`kernel, for BIRD and FRR; "vrrp": by a file, for keepalived; or "off"`,
		func(c *Config) *announce.Mode {
			return &c.Announce.Mode
		}, word(announce.Off, announce.Routes, announce.VRRP), announce.Off),
	define("announce.table", "", zero, "mode routes: the kernel's routing table, 0 is main; FRR reads those up to 252",
		func(c *Config) *int { return &c.Announce.Table }, fields.Int(0, math.MaxInt32), kernelTable),
	define("announce.metric", "", zero, "mode routes: the metric of the routes",
		func(c *Config) *int { return &c.Announce.Metric }, metrics, 100),
	define("announce.drainMetric", "", zero, "mode routes: the metric after `svcproxy node drain`; the routing daemon "+
		"makes GRACEFUL_SHUTDOWN of it",
		func(c *Config) *int { return &c.Announce.DrainMetric }, metrics, 2000),
	define("announce.drainTime", "", zero, "mode routes: how long a drained node announces with drainMetric, before it "+
		"withdraws its VIPs",
		func(c *Config) *time.Duration { return &c.Announce.DrainTime }, fields.DurationIn(0, 24*time.Hour), 30*time.Second),
	define("announce.minHealthy", "", zero, `a VIP is announced while this number or percentage ("50%") of its `+
		`endpoints is up, without regard to health.minHealthy and onAllDown; 0: always`,
		func(c *Config) *fields.Amount { return &c.Announce.MinHealthy }, fields.AmountOf, fields.Amount{N: 1}),
	define("announce.require", "", zero, `which service ports of a VIP need that: "all" or "any"`,
		func(c *Config) *announce.Require { return &c.Announce.Require }, word(announce.All, announce.Any), announce.All),
	define("announce.holdUp", "", zero, "how long a VIP must be good before it is announced again, and after a start "+
		"before it is announced first",
		func(c *Config) *time.Duration { return &c.Announce.HoldUp }, fields.DurationIn(0, 24*time.Hour), 5*time.Second),
	define("announce.withdrawWait", "", zero, "mode routes: how long an announced VIP that is removed is still served "+
		"after its withdrawal, until routers know",
		func(c *Config) *time.Duration {
			return &c.Announce.WithdrawWait
		}, fields.DurationIn(0, 24*time.Hour), 3*time.Second),
	define("announce.vipPriority", "", zero, "mode vrrp: what each VIP that this node cannot serve takes from "+
		"keepalived's priority, 100 in all or one VIP's; the same on both nodes, and more than their priorities differ",
		func(c *Config) *int { return &c.Announce.VIPPriority }, fields.Int(1, -announce.PriorityWithdrawn-1), 10),
	define("announce.file", "", zero, `a file that is replaced when its content changes; mode routes: the announced `+
		`VIPs, one a line; mode vrrp: a number for keepalived's track_file, 0 is good; "": none`,
		func(c *Config) *string { return &c.Announce.File }, fields.StringOf(absoluteOrNone), ""),
}

// kernelTable is the default of announce.table: the number of our route protocol, which no distribution uses.
const kernelTable = 143

func absoluteOrNone(s string) error {
	if s == "" {
		return nil
	}
	return absolute(s)
}

// checkAnnounce checks the keys of table announce that depend on others.
func (d *decoder) checkAnnounce() {
	a := &d.config.Announce
	if a.Table == localTable {
		d.refuseAt("announce.table", "announce.table = 255 is the table of the node's own addresses: choose another")
	}
	if a.Mode == announce.Off {
		if a.File != "" {
			d.warn("announce.file", "has no effect without announce.mode")
		}
		return
	}
	if a.DrainMetric <= a.Metric {
		d.conflict("announce.drainMetric", "announce.metric", "must be more than")
	}
	if d.config.IPVS.VIPBinding == "address" {
		d.conflict("announce.mode", "ipvs.vipBinding", "makes VIPs local by routes and cannot go with")
	}
	if a.Mode != announce.VRRP {
		return
	}
	if a.File == "" && !d.refused["announce.file"] {
		d.refuseAt("announce.mode", fmt.Sprintf("announce.mode = %q needs announce.file, which keepalived reads", a.Mode))
	}
	if !d.config.IPVS.StrictARP {
		d.refuseAt("announce.mode", fmt.Sprintf("announce.mode = %q needs ipvs.strictARP = true: without it both nodes "+
			"answer ARP for the VIPs", a.Mode))
	}
}
