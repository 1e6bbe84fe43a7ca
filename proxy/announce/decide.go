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
	"github.com/svcproxy/svcproxy/proxy/health"
)

// Input is what a decision depends on.
type Input struct {
	Frontends *frontend.Frontends
	Unusual   []health.Unusual             // of the table of Frontends
	Want      *kernel.State                // without announcements
	Have      *kernel.Observed             // the last reading
	Drained   time.Time                    // since when the operator drains the node; zero = not
	WhyNot    func(*frontend.Front) string // why the mode cannot serve a front, "" if it can; nil = it serves all
	Departs   Departures                   // its VIPs are in Frontends, and are not announced
	Starts    Starts                       // of svcproxy; while it crashes again and again nothing is announced
	Now       time.Time
}

// Decision is which VIPs are announced.
type Decision struct {
	VIPs   []VIP                 // sorted by address
	Routes []kernel.Announcement // of the VIPs that are announced, sorted
	Memory Memory
	Wake   time.Time // when the decision changes by itself; zero = never
	// Priority is the number for keepalived, in mode vrrp.
	Priority int
}

// Decide decides which VIPs are announced.
func Decide(c Config, in Input, before Memory) Decision {
	d := decider{Config: &c, Input: &in, before: before}
	d.out.Memory = Memory{began: before.began, vips: map[netip.Addr]remembered{}}
	if before.began.IsZero() {
		d.out.Memory.began = in.Now
	}
	if c.Mode != Routes && c.Mode != VRRP {
		return d.out
	}
	d.unusual = map[int][]health.Group{}
	for _, u := range in.Unusual {
		d.unusual[u.Service] = append(d.unusual[u.Service], u.Group)
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
	d.prioritise()
	return d.out
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

// decider is one call of Decide.
type decider struct {
	*Config
	*Input
	before  Memory
	unusual map[int][]health.Group // by service
	out     Decision
}

// vip decides on one VIP.
func (d *decider) vip(addr netip.Addr, fronts []frontend.Front) {
	if until, departs := d.Departs.until(d.Config, addr); departs {
		// Memory forgets it: if it comes back, it is new, and announced at once.
		why := fmt.Sprintf("removed: still served for %s, until routers know", d.WithdrawWait)
		d.out.VIPs = append(d.out.VIPs, VIP{Addr: addr, Services: d.names(fronts), Reason: why, Until: until})
		if d.Now.Before(until) { // else it waits for a source
			d.wake(until)
		}
		return
	}
	fronts = announced(fronts)
	if len(fronts) == 0 {
		return
	}
	v := VIP{Addr: addr, Services: d.names(fronts)}
	was, known := d.before.vips[addr]
	now := remembered{good: was.good, fresh: was.fresh || !known && d.isNew()}
	why, local := d.local(addr)
	missing := d.missing(addr)
	now.lacks, now.lost = missing != "", local == lost
	switch {
	case local == taken, now.lost && was.lost:
		v.Reason = why
	case now.lacks && was.lacks: // the last sync should have added it
		v.Reason = missing
	default:
		v.Reason = d.unhealthy(fronts)
	}
	switch {
	case v.Reason != "":
		now.good, now.fresh = time.Time{}, false
	case now.good.IsZero():
		now.good = d.Now
	}
	if v.Reason == "" && !now.fresh && (d.Mode == VRRP || announcement(d.Have.Announcements, addr) == nil) {
		d.holdUp(&v, now.good)
	}
	if v.Reason == "" && local == asked {
		v.Reason = why // it is as good as before: no holdUp follows
	}
	if v.Reason == "" && d.crashing() {
		v.Reason = fmt.Sprintf("svcproxy crashed: %d starts since %s; announced once it has run for %s", d.Starts.Count, d.Starts.Since.Format(time.RFC3339), steady)
		d.wake(d.Starts.Good())
	}
	if v.Reason == "" {
		v.Announced, v.Metric = true, d.metric()
		d.drain(&v)
	}
	d.out.Memory.vips[addr] = now
	d.out.VIPs = append(d.out.VIPs, v)
	if v.Metric != 0 {
		d.out.Routes = append(d.out.Routes, kernel.Announcement{Addr: addr, Table: d.Table, Metric: v.Metric})
	}
}

// isNew reports whether a VIP that the last decision did not know is new in the table. When
// svcproxy starts all are unknown. Then those that the kernel does not announce yet wait, so
// that health checks have results. keepalived's priority must not change by a restart.
func (d *decider) isNew() bool { return !d.before.began.IsZero() || d.Mode == VRRP }

// announced returns the fronts that routing daemons may be told of.
func announced(fronts []frontend.Front) []frontend.Front {
	return slices.DeleteFunc(slices.Clone(fronts), func(x frontend.Front) bool { return !x.Traits.Has(frontend.Announced) })
}

// names returns the names of the services of some fronts.
func (d *decider) names(fronts []frontend.Front) []string {
	names := map[string]bool{}
	for i := range fronts {
		names[d.Frontends.Service(&fronts[i]).DisplayName()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// missing returns why the kernel cannot serve a VIP: a virtual server is wanted that the
// last reading does not have. It is "" in modes without virtual servers.
func (d *decider) missing(addr netip.Addr) string {
	lacks := ""
	start, _ := slices.BinarySearchFunc(d.Want.Virtuals, addr, func(v kernel.Virtual, a netip.Addr) int { return v.Key.Addr.Compare(a) })
	for _, v := range d.Want.Virtuals[start:] {
		if v.Key.Addr != addr {
			break
		}
		_, found := slices.BinarySearchFunc(d.Have.Virtuals, v, kernel.Virtual.Compare)
		switch {
		case found && d.Require == Any:
			return ""
		case !found && lacks == "":
			lacks = fmt.Sprintf("the kernel has no virtual server for %s", portOf(v.Key))
		}
	}
	return lacks
}

// unhealthy returns why some fronts of a VIP cannot be served; "" if they can.
func (d *decider) unhealthy(fronts []frontend.Front) string {
	first := ""
	for i := range fronts {
		why := d.unserved(&fronts[i])
		if why == "" && d.Require == Any {
			return ""
		}
		if why != "" && first == "" {
			first = fmt.Sprintf("%s: %s", portOf(fronts[i].Key), why)
		}
	}
	return first
}

// unserved returns why a front cannot be served; "" if it can.
func (d *decider) unserved(x *frontend.Front) string {
	if d.WhyNot != nil {
		if why := d.WhyNot(x); why != "" {
			return why
		}
	}
	up, of := d.count(x)
	if up < d.needed(of) {
		of -= d.elsewhere(x)
	}
	if need := d.needed(of); up < need {
		return fmt.Sprintf("%d of %d endpoints can serve, and it needs %d", up, of, need)
	}
	return ""
}

// portOf is the port of a virtual server in words: "port 80/tcp".
func portOf(k kernel.VirtualKey) string {
	return fmt.Sprintf("port %d/%s", k.Port, strings.ToLower(k.Proto.String()))
}

// count returns how many endpoints of a front are up, and how many its service port has.
// Those that get connections although they are down do not count as up.
func (d *decider) count(x *frontend.Front) (up, of int) {
	s := d.Frontends.Service(x)
	ipv6 := x.Key.Family() == kernel.IPv6
	g := d.group(x)
	for _, b := range d.Frontends.Backends(x) {
		if d.Frontends.Weight(int(x.Service), b) > 0 && !s.Endpoints[b.Endpoint].Spared {
			up++
		}
	}
	local := x.Traits&(frontend.ExternalLocal|frontend.InternalLocal) != 0 // endpoints of other nodes do not count
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if _, serves := s.PortOf(e, int(x.Port)); !serves || e.Addr.Is6() != ipv6 || e.Backup {
			continue
		}
		if !local || e.On(d.Frontends.Node.Name, d.Frontends.Config.LocalCIDRs) {
			of++
		}
	}
	if local { // or all of them, by localFallback
		of = max(of, len(d.Frontends.Backends(x)))
	}
	if g.Mode.Panic() || g.Mode == health.FirstResult {
		up = min(up, g.Up)
	}
	return up, max(of, up)
}

// group returns the group of a front's endpoints; its zero, in mode Normal, if nothing is unusual about them.
func (d *decider) group(x *frontend.Front) health.Group {
	port, ipv6 := d.Frontends.Service(x).Ports[x.Port], x.Key.Family() == kernel.IPv6
	for _, g := range d.unusual[int(x.Service)] {
		if g.Port == port.Name && g.Protocol == port.Protocol && g.IPv6 == ipv6 {
			return g
		}
	}
	return health.Group{}
}

// elsewhere returns how many endpoints of a front's service port topology hints keep for other nodes.
func (d *decider) elsewhere(x *frontend.Front) (n int) {
	s := d.Frontends.Service(x)
	if x.Traits&(frontend.ExternalLocal|frontend.InternalLocal) != 0 {
		return 0 // count has left them out
	}
	for _, t := range d.Frontends.Targets(int(x.Service)) {
		e := &s.Endpoints[t.Endpoint]
		if t.Port == int(x.Port) && t.Reason == frontend.Elsewhere && e.Addr.Is6() == (x.Key.Family() == kernel.IPv6) && !e.Backup {
			n++
		}
	}
	return n
}

// holdUp holds a VIP back that has not been good for long enough. A drained node needs no
// such pause: the VIP stays good during a drain.
func (d *decider) holdUp(v *VIP, good time.Time) {
	until := good.Add(d.HoldUp)
	if !d.Now.Before(until) {
		return
	}
	v.Reason = fmt.Sprintf("it can be served, and waits %s before it is announced", d.HoldUp)
	d.wake(until)
}

// drain gives a VIP of a drained node a higher metric, and withdraws it later.
func (d *decider) drain(v *VIP) {
	if d.Drained.IsZero() {
		return
	}
	until := d.Drained.Add(d.DrainTime)
	if d.Mode == VRRP || !d.Now.Before(until) {
		v.Announced, v.Metric, v.Reason = false, 0, "the node is drained"
		return
	}
	v.Metric, v.Reason = d.DrainMetric, fmt.Sprintf("the node is drained: routers with another way leave it within %s", d.DrainTime)
	d.wake(until)
}

// crashing reports whether svcproxy crashed again and again, and has not run for long since.
func (d *decider) crashing() bool { return d.Starts.Crashing() && d.Now.Before(d.Starts.Good()) }

func (d *decider) metric() uint32 {
	if d.Mode == VRRP {
		return 0
	}
	return d.Metric
}

func (d *decider) wake(at time.Time) {
	if d.out.Wake.IsZero() || at.Before(d.out.Wake) {
		d.out.Wake = at
	}
}

// prioritise makes one number of all VIPs.
func (d *decider) prioritise() {
	if !d.Drained.IsZero() || d.crashing() {
		d.out.Priority = PriorityWithdrawn
		return
	}
	for _, v := range d.out.VIPs {
		if !v.Announced {
			d.out.Priority += priorityOfVIP
		}
	}
	d.out.Priority = max(d.out.Priority, lowestOfVIPs)
}
