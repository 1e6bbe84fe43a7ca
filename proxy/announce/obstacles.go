package announce

import (
	"fmt"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// obstacle is a reason not to announce a VIP.
type obstacle struct {
	effect effect
	// why returns the reason, "" if it does not hold, and when it ends; zero if no time
	// alone ends it.
	why func(*candidate) (why string, until time.Time)
}

// effect is what an obstacle means for the VIP's memory.
type effect int

const (
	good   effect = iota // it can be served
	bad                  // it cannot: once it can, it waits for announce.holdUp
	leaves               // it is forgotten: if it comes back it is new, and announced at once
)

// obstacles is the only list of reasons not to announce a VIP. The first that holds is the
// reason; without any the VIP is announced.
var obstacles = [...]obstacle{
	{leaves, (*candidate).departs},
	{bad, (*candidate).taken},
	{bad, (*candidate).lost},
	{bad, (*candidate).missing},
	{bad, (*candidate).unhealthy},
	{good, (*candidate).holdUp},
	{good, (*candidate).asked},
	{good, (*candidate).crashes},
	{good, (*candidate).drained},
}

// departs: the table lost it. Without a time it waits for a source.
func (c *candidate) departs() (string, time.Time) {
	was, departs := c.before.departures.withdrawn[c.addr]
	if !departs {
		return "", time.Time{}
	}
	return fmt.Sprintf("removed: still served for %s, until routers know", c.WithdrawWait), was.at.Add(c.WithdrawWait)
}

// taken: another host has it.
func (c *candidate) taken() (why string, until time.Time) {
	if c.local == taken {
		why = c.whyNotLocal
	}
	return why, until
}

// lost: the last plan should have made it local.
func (c *candidate) lost() (why string, until time.Time) {
	if c.now.lost.lasts(c.before.plans) {
		why = c.whyNotLocal
	}
	return why, until
}

// missing: the last plan should have added a virtual server.
func (c *candidate) missing() (why string, until time.Time) {
	if c.now.lacks.lasts(c.before.plans) {
		why = c.lacking
	}
	return why, until
}

// unhealthy: service ports of it cannot be served.
func (c *candidate) unhealthy() (why string, until time.Time) {
	for i := range c.fronts {
		x := &c.fronts[i]
		unserved := c.unserved(x)
		if unserved == "" && c.Require == Any {
			return "", until
		}
		if unserved != "" && why == "" {
			why = fmt.Sprintf("%s: %s", portOf(x.Key), unserved)
		}
	}
	return why, until
}

// unserved returns why a front cannot be served; "" if it can.
func (d *decider) unserved(x *frontend.Front) string {
	if d.WhyNot != nil {
		if why := d.WhyNot(x); why != "" {
			return why
		}
	}
	n := d.Frontends.Counts(x)
	up, need := int(n.Up), d.needed(int(n.Of))
	if own := d.Frontends.Service(x).AnnounceMinHealthy; own != nil {
		up, need = int(n.Up-n.Backups), *own
	}
	if up < need {
		return fmt.Sprintf("%d of %d endpoints can serve, and it needs %d", up, n.Of, need)
	}
	return ""
}

// holdUp: it has not been good for long enough. A drained node needs no such pause: the
// VIP stays good during a drain.
func (c *candidate) holdUp() (string, time.Time) {
	until := c.now.good.Add(c.HoldUp)
	known := c.Mode != VRRP && announcement(c.Have.Announcements, c.addr) != nil
	if c.now.fresh || known || !c.at.Before(until) {
		return "", time.Time{}
	}
	return fmt.Sprintf("it can be served, and waits %s before it is announced", c.HoldUp), until
}

// asked: other hosts are asked whether they have it. It is as good as before, so no holdUp
// follows.
func (c *candidate) asked() (why string, until time.Time) {
	if c.local == asked {
		why = c.whyNotLocal
	}
	return why, until
}

// crashes: svcproxy crashed again and again, and has not run for long since.
func (d *decider) crashes() (string, time.Time) {
	until := d.Starts.Good()
	if !d.Starts.Crashing() || !d.at.Before(until) {
		return "", time.Time{}
	}
	return fmt.Sprintf("svcproxy crashed: %d starts since %s; announced once it has run for %s",
		d.Starts.Count, d.Starts.Since.Format(time.RFC3339), steady), until
}

// drained: the operator drains the node, and routers have had the time to leave it.
func (c *candidate) drained() (why string, until time.Time) {
	if !c.Drained.IsZero() && (c.Mode == VRRP || !c.at.Before(c.Drained.Add(c.DrainTime))) {
		why = "the node is drained"
	}
	return why, until
}

// lack returns why the kernel cannot serve a VIP: a virtual server is wanted that the
// last reading does not have. It is "" in modes without virtual servers.
func (c *candidate) lack() string {
	lacks := ""
	start, _ := slices.BinarySearchFunc(c.Want.Virtuals, c.addr, compareAddr)
	for _, v := range c.Want.Virtuals[start:] {
		if v.Key.Addr != c.addr {
			break
		}
		_, found := slices.BinarySearchFunc(c.Have.Virtuals, v, kernel.Virtual.Compare)
		switch {
		case found && c.Require == Any:
			return ""
		case !found && lacks == "":
			lacks = fmt.Sprintf("the kernel has no virtual server for %s", portOf(v.Key))
		}
	}
	return lacks
}
