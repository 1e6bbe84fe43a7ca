package proxy

import (
	"context"
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// A table with many new VIPs is loaded in several syncs, so that news does not wait for the last of them. The first
// part that adds some is of about leastLoad virtual and real servers. Later parts take loadTime, or as long as
// planning took since the last part if that is longer. So planning takes at most half of the time, however often
// something changes.
const (
	leastLoad = 400
	loadTime  = time.Second
)

// load is a load in several syncs. Its zero is before the first sync.
type load struct {
	objects  int                 // virtual and real servers of the next part; 0 before the first
	begun    int                 // VIPs that were left when the load began, 0 if none is going on
	adds     bool                // the next part adds VIPs even if there is news: the last part was of news alone
	planning time.Duration       // since the last part that added VIPs
	last     *frontend.Frontends // of the last part
	tried    map[netip.Addr]bool // VIPs that a plan was for and that are not served, as when the kernel refuses them
}

// plan plans the part of the wanted state that is next. During a load a part is either of news alone, such as a dead
// backend or VIPs that go, or adds VIPs, unless there is news all the time. With the frontends of the last part and no
// difference in the kernel there is no news to look for.
func (p *Proxy) plan(ctx context.Context, want kernel.State, r *Report) (
	part kernel.State, then kernel.Memory, err error,
) {
	l := &p.load
	if l.objects == 0 {
		l.objects = leastLoad
	}
	same := l.last != nil && p.next.Frontends.Same(l.last) && !r.Differed
	l.last = p.next.Frontends
	for adds := l.adds || same; ; adds = true {
		n := l.objects
		if !adds && l.begun > 0 {
			n = 0 // news comes before the last part, too
		}
		next, left := plan.Next(want, &p.reading.have, l.tried, n, adds)
		l.begun = max(l.begun, left)
		if r.Plan, then, err = p.reading.plan(ctx, next, p.moment(r)); err != nil {
			return part, then, err
		}
		if adds || left == 0 || !r.Plan.Empty() {
			l.adds, r.Left = !adds, left
			return next, then, nil
		}
	}
}

// done notes a plan of a part, how long it took to make and to carry out, and the reading after it.
func (l *load) done(part kernel.State, have *kernel.Observed, r *Report, err error) {
	planning, applying := r.Planned.Sub(r.Start), time.Since(r.Planned)
	if r.Left > 0 || err != nil || l.tried != nil {
		l.tried = plan.Tried(part, have, l.tried)
	}
	switch l.planning += planning; {
	case r.Left == 0:
		*l = load{tried: l.tried}
	case l.adds: // the part was of news alone
	default:
		fits := float64(l.objects) * float64(max(l.planning, loadTime)) / float64(max(applying, time.Millisecond))
		l.objects = max(leastLoad, min(max(int(fits), l.objects/4), 4*l.objects))
		l.planning = 0
	}
}
