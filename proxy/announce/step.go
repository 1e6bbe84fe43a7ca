package announce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Input is what a decision depends on.
type Input struct {
	Frontends *frontend.Frontends
	Want      *kernel.State                // without announcements
	Have      *kernel.Observed             // the last reading
	Probed    []kernel.Claim               // that no other host answered for, sorted
	Taken     []kernel.Taken               // that another host answered for, sorted
	Missing   bool                         // a source has not delivered its table
	Drained   time.Time                    // since when the operator drains the node; zero = not
	WhyNot    func(*frontend.Front) string // why the mode cannot serve a front, "" if it can; nil = it serves all
	Starts    Starts                       // of svcproxy; while it crashes again and again nothing is announced
}

// Decision is which VIPs are announced.
type Decision struct {
	VIPs   []VIP                 // sorted by address
	Routes []kernel.Announcement // of the VIPs that are announced, sorted
	// Priority is the number for keepalived, in mode vrrp.
	Priority int
}

// Step decides which VIPs are announced. wake is when the decision changes by itself; zero
// is never. VIPs that Keep has kept are in the Frontends, and are not announced.
func Step(c Config, m Memory, in Input, now time.Time) (out Decision, next Memory, wake time.Time) {
	d := decider{Config: &c, Input: &in, before: &m, next: m, at: now}
	d.next.vips = map[netip.Addr]remembered{}
	if m.began.IsZero() {
		d.next.began = now
	}
	if c.Mode != Routes && c.Mode != VRRP {
		return d.out, d.next, d.wake
	}
	fronts := in.Frontends.Fronts
	for len(fronts) > 0 {
		addr, n := fronts[0].Key.Addr, 1
		for n < len(fronts) && fronts[n].Key.Addr == addr {
			n++
		}
		d.vip(addr, fronts[:n])
		fronts = fronts[n:]
	}
	if c.Mode == VRRP {
		d.prioritise()
	}
	return d.out, d.next, d.wake
}

// prioritise makes one number of all VIPs.
func (d *decider) prioritise() {
	number := priorityOf(d.out.VIPs, d.VIPPriority)
	if crashes, _ := d.crashes(); crashes != "" || !d.Drained.IsZero() {
		number = PriorityWithdrawn
	}
	d.next.priority = d.before.priority.next(number, d.Missing, d.at)
	d.out.Priority = d.next.priority.is
	d.wakeAt(d.next.priority.rises)
}

// Confirm returns VIPs as the kernel announces them: a route may not be there yet, or may be there still.
// With more, the plan stopped before its end, and the next one goes on.
func Confirm(vips []VIP, have []kernel.Announcement, more bool) []VIP {
	vips = slices.Clone(vips)
	missing, still := "the last sync could not announce it", "; the last sync could not withdraw it"
	if more {
		missing, still = "it is not served yet: the sync goes on", "; not withdrawn yet: the sync goes on"
	}
	for i := range vips {
		v := &vips[i]
		switch there := announcement(have, v.Addr); {
		case v.Metric != 0 && there == nil:
			v.Announced, v.Metric, v.Reason = false, 0, missing
		case !v.Announced && there != nil:
			v.Announced, v.Metric, v.Reason = true, there.Metric, v.Reason+still
		}
	}
	return vips
}

// announcement returns a VIP's announcement in a kernel, in any table; nil if there is none.
func announcement(have []kernel.Announcement, addr netip.Addr) *kernel.Announcement {
	i, _ := slices.BinarySearchFunc(have, kernel.Announcement{Addr: addr}, kernel.Announcement.Compare)
	if i == len(have) || have[i].Addr != addr {
		return nil
	}
	return &have[i]
}

// File returns the content of announce.file: the VIPs that are announced, one a line, or
// the number for keepalived.
func (d *Decision) File(m Mode) string {
	if m == VRRP {
		return fmt.Sprintf("%d\n", d.Priority)
	}
	var b strings.Builder
	for _, v := range d.VIPs {
		if v.Announced {
			fmt.Fprintf(&b, "%s/%d\n", v.Addr, v.Addr.BitLen())
		}
	}
	return b.String()
}

// decider is one call of Step.
type decider struct {
	*Config
	*Input
	before *Memory
	next   Memory
	at     time.Time
	out    Decision
	wake   time.Time
}

// candidate is a VIP that may be announced.
type candidate struct {
	*decider
	addr        netip.Addr
	fronts      []frontend.Front
	now         remembered
	local       locality
	whyNotLocal string
	lacking     string // see lack
}

// vip decides on one VIP.
func (d *decider) vip(addr netip.Addr, fronts []frontend.Front) {
	all := fronts
	if _, departs := d.before.departures.withdrawn[addr]; !departs {
		fronts = announced(fronts)
	}
	if len(fronts) == 0 {
		d.uncounted(addr, all)
		return
	}
	c := d.candidate(addr, fronts)
	v := d.named(addr, fronts)
	is, until := c.obstacle(&v)
	if v.Reason == "" {
		v.Announced = true
		v.Metric, v.Reason, until = d.metric()
	}
	d.wakeAt(until)
	switch {
	case v.Reason != "" && is == leaves:
		v.Until = until
	case v.Reason != "" && is == bad:
		c.now.good, c.now.fresh = time.Time{}, false
		fallthrough
	default:
		d.next.vips[addr] = c.now
	}
	d.out.VIPs = append(d.out.VIPs, v)
	if v.Metric != 0 {
		d.out.Routes = append(d.out.Routes, kernel.Announcement{Addr: addr, Table: d.Table, Metric: v.Metric})
	}
}

// named is a VIP, without a decision.
func (d *decider) named(addr netip.Addr, fronts []frontend.Front) VIP {
	v := VIP{Addr: addr, Services: d.names(fronts), Moved: d.Mode == VRRP}
	if v.Moved {
		v.Link = d.Have.Node.LinkOf(addr)
	}
	return v
}

// uncounted names a VIP that services of files take out of the number for keepalived.
func (d *decider) uncounted(addr netip.Addr, fronts []frontend.Front) {
	fronts = slices.DeleteFunc(slices.Clone(fronts), func(x frontend.Front) bool {
		s := d.Frontends.Service(&x)
		return s.Announce == nil || s.Origin.File == "" || x.Traits.Has(frontend.NodePort)
	})
	if d.Mode == VRRP && len(fronts) > 0 {
		v := d.named(addr, fronts)
		v.Uncounted, v.Reason = true, "announce = false"
		d.out.VIPs = append(d.out.VIPs, v)
	}
}

// candidate looks at a VIP. It is good since now unless it was already: obstacles may say
// that it is not.
func (d *decider) candidate(addr netip.Addr, fronts []frontend.Front) *candidate {
	was, known := d.before.vips[addr]
	c := &candidate{decider: d, addr: addr, fronts: fronts, now: was}
	c.now.fresh = was.fresh || !known && d.isNew()
	if c.now.good.IsZero() {
		c.now.good = d.at
	}
	c.whyNotLocal, c.local = d.localOf(addr)
	c.lacking = c.lack()
	c.now.lost = was.lost.seen(c.local == lost, d.before.plans)
	c.now.lacks = was.lacks.seen(c.lacking != "", d.before.plans)
	return c
}

// obstacle gives a VIP the first reason not to announce it, if there is one.
func (c *candidate) obstacle(v *VIP) (is effect, until time.Time) {
	for i := range obstacles {
		if v.Reason, until = obstacles[i].why(c); v.Reason != "" {
			return obstacles[i].effect, until
		}
	}
	return good, time.Time{}
}

// isNew reports whether a VIP that the last decision did not know is new in the table. When
// svcproxy starts all are unknown. Then those that the kernel does not announce yet wait, so
// that health checks have results. keepalived's priority must not change by a restart.
func (d *decider) isNew() bool { return !d.before.began.IsZero() || d.Mode == VRRP }

// announced returns the fronts that routing daemons may be told of.
func announced(fronts []frontend.Front) []frontend.Front {
	return slices.DeleteFunc(slices.Clone(fronts), func(x frontend.Front) bool {
		return !x.Traits.Has(frontend.Announced)
	})
}

// names returns the names of the services of some fronts.
func (d *decider) names(fronts []frontend.Front) []string {
	names := map[string]bool{}
	for i := range fronts {
		names[d.Frontends.Service(&fronts[i]).DisplayName()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// portOf is the port of a virtual server in words: "port 80/tcp".
func portOf(k kernel.VirtualKey) string {
	return fmt.Sprintf("port %d/%s", k.Port, strings.ToLower(k.Proto.String()))
}

// compareAddr orders virtual servers by address alone.
func compareAddr(v kernel.Virtual, a netip.Addr) int { return v.Key.Addr.Compare(a) }

// metric returns the metric of a VIP that is announced: a higher one, with the reason, while
// routers are to leave the node. It is 0 in mode vrrp.
func (d *decider) metric() (metric uint32, why string, until time.Time) {
	switch {
	case d.Mode == VRRP:
		return 0, "", until
	case d.Drained.IsZero():
		return d.Metric, "", until
	}
	why = fmt.Sprintf("the node is drained: routers with another way leave it within %s", d.DrainTime)
	return d.DrainMetric, why, d.Drained.Add(d.DrainTime)
}

// wakeAt notes a time at which the decision changes, if it is to come.
func (d *decider) wakeAt(t time.Time) {
	if d.at.Before(t) && (d.wake.IsZero() || t.Before(d.wake)) {
		d.wake = t
	}
}
