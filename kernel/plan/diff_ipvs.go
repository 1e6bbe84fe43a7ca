package plan

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// diffVirtuals compares the virtual servers that are owned, and notes conflicts and
// those that kube-proxy left.
func (d *differ) diffVirtuals() {
	if kernel.SameSlice(d.want.Virtuals, d.have.Virtuals) {
		return // only Applied shares it, and after that all of them are owned
	}
	own, left := ownershipOf(&d.have, d.memory.Owned), virtualCursor(d.left())
	want, have := d.want.Virtuals, d.have.Virtuals
	i, j := 0, 0
	for i < len(want) || j < len(have) {
		c := -1
		if i == len(want) {
			c = 1
		} else if j < len(have) {
			c = kernel.CompareKeys(&want[i].Key, &have[j].Key)
		}
		switch {
		case c < 0:
			d.add(kernel.AddVirtuals, want[i])
			i++
		case c > 0:
			switch {
			case own.has(&have[j]) || d.claims(have[j].Key):
				d.removeVirtual(have[j])
			case d.isLeft(&have[j], &left):
				d.leave(have[j])
			}
			j++
		default:
			switch {
			case !own.has(&have[j]) && !d.claims(want[i].Key) && !d.adopts(want[i], have[j]) && !d.isLeft(&have[j], &left):
				d.plan.Conflicts = append(d.plan.Conflicts, kernel.Conflict{Want: want[i], Have: have[j]})
			case !sameVirtual(&want[i], &have[j], d.want.Reals) || d.inIPVS(want[i].Key):
				d.change(kernel.AddVirtuals, have[j], want[i])
			case want[i] != have[j]:
				d.plan.RoundRobin = true
			}
			i++
			j++
		}
	}
}

// inIPVS says whether a virtual server has to move from IPVS to the relay.
func (d *differ) inIPVS(k kernel.VirtualKey) bool {
	if len(d.have.InIPVS) == 0 {
		return false
	}
	_, found := slices.BinarySearchFunc(d.have.InIPVS, k, kernel.VirtualKey.Compare)
	return found
}

func (d *differ) removeVirtual(v kernel.Virtual) {
	if d.remove(kernel.RemoveVirtuals, v) {
		d.torn = append(d.torn, v.Key)
	}
}

// isLeft says whether kube-proxy left a virtual server. kube-proxy's sets name it,
// or they did when the node was taken over, and the virtual server has not changed
// since.
func (d *differ) isLeft(v *kernel.Virtual, left *keyCursor[kernel.Virtual]) bool {
	l := left.find(&v.Key)
	return l != nil && *l == *v || leftByKubeProxy(&d.have, v.Key)
}

// leave notes an unwanted virtual server that kube-proxy left, or removes it if the
// policy says so.
func (d *differ) leave(v kernel.Virtual) {
	if d.want.Policy.TakeLeft {
		d.removeVirtual(v)
		return
	}
	d.plan.Left = append(d.plan.Left, v)
}

// claims says whether the policy treats a foreign virtual server as owned. Those by firewall mark stay foreign.
func (d *differ) claims(k kernel.VirtualKey) bool {
	if !d.want.Policy.DeleteUnknown || k.Proto == kernel.FWMark {
		return false
	}
	for _, c := range d.want.Policy.ExcludeCIDRs {
		if c.Contains(k.Addr) {
			return false
		}
	}
	return true
}

// adopts says whether a wanted virtual server that is not owned may be adopted, because
// nothing would change by it but for real servers of weight 0, which get no connection.
func (d *differ) adopts(want, have kernel.Virtual) bool {
	return sameVirtual(&want, &have, d.want.Reals) && onlyIdleMore(d.want.Reals.Of(want.Key), d.have.Reals.Of(want.Key))
}

// onlyIdleMore says whether sorted wanted real servers are those that are there, and others of
// weight 0: backups, and those that wait for their first health check.
func onlyIdleMore(want, have []kernel.Real) bool {
	for _, w := range want {
		switch {
		case len(have) > 0 && w == have[0]:
			have = have[1:]
		case w.Weight > 0:
			return false
		}
	}
	return len(have) == 0
}

// diffReals compares the real servers of wanted virtual servers. The others are removed
// with their virtual server, or are foreign.
func (d *differ) diffReals() {
	d.plan.Drains = keep(d.memory.Drains, func(x kernel.Drain) bool { return !d.decided(kernel.Real{Key: x.Real}) })
	if d.want.Reals.Shares(d.have.Reals) {
		return
	}
	drains := d.memory.Drains
	var of kernel.VirtualKey // the virtual server of the last unwanted one
	var at int               // its place in want.Virtuals
	var stays bool           // it has one
	d.want.Reals.Unshared(d.have.Reals, func(want, have []kernel.Real, first int) {
		i := sameReals(want, have) // mostly all of them
		for j := i; j < len(have); j++ {
			h := &have[j]
			if i < len(want) && want[i].Same(h) {
				i++
				continue
			}
			var wanted bool
			if i, wanted = d.wantedReals(want, i, h); wanted {
				continue
			}
			if !h.Key.Virtual.Same(&of) {
				of = h.Key.Virtual
				at, stays = kernel.FindVirtual(d.want.Virtuals, of)
			}
			if stays {
				d.unwantedReal(h, first+j, d.want.Virtuals[at].Scheduler, &drains)
			}
		}
		for ; i < len(want); i++ {
			d.add(kernel.AddReals, want[i])
		}
	})
}

// wantedReals adds the wanted real servers from index i on that come before h, and changes
// h if it is wanted, too. It returns the index of the next one.
func (d *differ) wantedReals(want []kernel.Real, i int, h *kernel.Real) (next int, wanted bool) {
	for ; i < len(want); i++ {
		switch c := kernel.CompareRealKeys(&want[i].Key, &h.Key); {
		case c > 0:
			return i, false
		case c == 0:
			if !want[i].Same(h) {
				d.change(kernel.AddReals, *h, want[i])
			}
			return i + 1, true
		}
		d.add(kernel.AddReals, want[i])
	}
	return i, false
}

// unwantedReal removes or drains the real server with an index, of a virtual server that stays. drains is
// what is left of memory.Drains: real servers come in ascending order.
func (d *differ) unwantedReal(h *kernel.Real, j int, scheduler string, drains *[]kernel.Drain) {
	if !d.decided(*h) {
		return
	}
	if d.cuts(h.Key) || !kernel.Quiesces(scheduler) {
		d.remove(kernel.RemoveReals, *h)
		return
	}
	var since time.Time
	for ; len(*drains) > 0 && (*drains)[0].Real.Compare(h.Key) <= 0; *drains = (*drains)[1:] {
		if (*drains)[0].Real == h.Key {
			since = (*drains)[0].Since
		}
	}
	d.drain(*h, j, d.drainTimeout(h.Key.Virtual), since)
}

// drainTimeout returns that of a virtual server: its own, or the policy's.
func (d *differ) drainTimeout(k kernel.VirtualKey) time.Duration {
	own := d.want.Policy.Drains
	if i, found := slices.BinarySearchFunc(own, k, func(x kernel.VirtualDrain, k kernel.VirtualKey) int {
		return x.Virtual.Compare(k)
	}); found {
		return own[i].Timeout
	}
	return d.want.Policy.DrainTimeout
}

// cuts says whether an unwanted real server is removed at once, with its connections.
func (d *differ) cuts(k kernel.RealKey) bool {
	_, found := slices.BinarySearchFunc(d.want.Policy.Cut, k, kernel.RealKey.Compare)
	return found
}

// drains says whether the connections of a protocol outlive their real server. Only those of TCP do: a UDP client
// would go on sending to a dead server, and an SCTP association fails over by itself. Behind a firewall
// mark there may be TCP.
func drains(p kernel.Proto) bool { return p == kernel.TCP || p == kernel.FWMark }

// drain decides what to do with a real server that is no longer wanted, and its index.
func (d *differ) drain(h kernel.Real, j int, timeout time.Duration, since time.Time) {
	if since.IsZero() {
		since = d.now.Time
	}
	deadline := since.Add(timeout)
	switch {
	case !drains(h.Key.Virtual.Proto),
		timeout > 0 && !d.now.Time.Before(deadline),
		d.idle(j):
		d.remove(kernel.RemoveReals, h)
		return
	}
	if h.Weight != 0 {
		to := h
		to.Weight = 0
		d.change(kernel.AddReals, h, to)
	}
	d.plan.Draining++
	d.plan.Drains = append(d.plan.Drains, kernel.Drain{Real: h.Key, Since: since})
	if timeout > 0 {
		d.wakeAt(deadline)
	}
}

// idle reports whether the real server with an index is known to have no connections.
func (d *differ) idle(j int) bool {
	return d.have.Fresh && j < len(d.have.Conns) && d.have.Conns[j].Active+d.have.Conns[j].Inactive == 0
}

// keyCursor finds keys of virtual servers in a sorted slice, or in several that follow each other. They must be asked
// for in ascending order.
type keyCursor[T any] struct {
	rest    []T
	runs    [][]T // behind rest
	compare func(*T, *kernel.VirtualKey) int
}

func (c *keyCursor[T]) find(k *kernel.VirtualKey) *T {
	for len(c.rest)+len(c.runs) > 0 {
		if len(c.rest) == 0 {
			c.rest, c.runs = c.runs[0], c.runs[1:]
		}
		first := &c.rest[0]
		switch o := c.compare(first, k); {
		case o == 0:
			return first
		case o > 0:
			return nil
		}
		c.rest = c.rest[1:]
	}
	return nil
}
