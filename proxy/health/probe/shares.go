package probe

import (
	"container/heap"
	"math"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Places are shared by service, so that no service can keep another one from being checked. DESIGN.md has the reasons.
const (
	// promptly is how long a probe holds its place at most for its target to count as prompt.
	promptly = 250 * time.Millisecond
	// promptAfter is how many such probes in a row make a target prompt, and slowFor is how long it was slow
	// at least before that: a target that flaps is slow.
	promptAfter = 3
	slowFor     = time.Minute
	// forgets is the time in which what a service used counts for 1/e.
	forgets = 10 * time.Second
	// unknownUsed is what a new service counts as having used: a hundredth of everything. Services that are
	// known to use less come before it.
	unknownUsed = 0.01
	// downBehind is how many intervals a target that is down waits behind those of its service that are up.
	downBehind = 4
)

// The classes of targets in a lane. Prompt targets need a place for a moment. Fresh ones were not probed yet:
// they may hold a place only for as long as prompt ones while others wait. Slow ones may hold it for their
// whole timeout, and leave places for the others.
const (
	prompt uint8 = iota
	fresh
	slow
	classes
)

// lane has the places of one kind of probe.
type lane struct {
	places  int
	running int
	classes [classes]class
	turn    int // counts what next returned, so that no class starves the other
}

// class has the shares of all services in one class of a lane.
type class struct {
	running int
	ready   shareHeap // shares with targets that are due
}

// group is a service in a lane.
type group struct {
	groupKey
	targets int // that the runner has
	shares  [classes]share
}

// groupKey identifies a group.
type groupKey struct {
	lane    *lane
	service string
}

// share is what targets of one service and class use.
type share struct {
	class   *class
	used    float64 // see Runner.charge
	running int
	due     dueHeap
	place   int // in class.ready
}

// left returns how many places a class may still take: slow targets leave a quarter to the prompt ones, one
// place at least.
func (l *lane) left(class uint8) int {
	free := l.places - l.running
	if class == slow && l.places > 1 {
		return min(free, l.places-max(1, l.places/4)-l.classes[slow].running)
	}
	return free
}

// allows reports whether a service that holds some places may take another one, with so many left. It then
// holds twice as many as remain at most: one service two thirds of all, and several leave one to others
// unless as many services hold one as there are places.
func allows(holds, left int) bool {
	return left > 0 && (holds == 0 || holds < 2*(left-1))
}

// waits returns how many services have targets that wait for a place.
func (l *lane) waits() (n int) {
	for i := range l.classes {
		n += len(l.classes[i].ready)
	}
	return n
}

// next returns the target to probe next, nil if none is due or may have a place. It is the first one of the
// service that holds the fewest places, and of these of the one that used least. Prompt targets come first
// half of the time, fresh and slow ones a quarter each, so that no class starves another.
func (l *lane) next() *Target {
	order := [classes]uint8{prompt, fresh, slow}
	switch l.turn++; l.turn % 4 {
	case 0:
		order = [classes]uint8{slow, prompt, fresh}
	case 2:
		order = [classes]uint8{fresh, prompt, slow}
	}
	for _, class := range order {
		if t := l.classes[class].next(l.left(class)); t != nil {
			return t
		}
	}
	return nil
}

// next returns the target of the first share. If that may not have a place, none may: it holds the fewest.
func (c *class) next(left int) *Target {
	if len(c.ready) == 0 || !allows(c.ready[0].running, left) {
		return nil
	}
	return c.ready[0].due[0].Target
}

// add queues a target that is due.
func (s *share) add(t *Target) {
	rank := t.due
	if t.down {
		rank += downBehind * t.every
	}
	heap.Push(&s.due, queued{rank, t})
	if len(s.due) == 1 {
		heap.Push(&s.class.ready, s)
	} else {
		heap.Fix(&s.class.ready, s.place)
	}
}

// remove removes a target that waits for a place.
func (s *share) remove(t *Target) {
	heap.Remove(&s.due, int(t.place))
	if len(s.due) == 0 {
		heap.Remove(&s.class.ready, s.place)
	} else {
		heap.Fix(&s.class.ready, s.place)
	}
}

// join counts a target in the group of its service.
func (r *Runner) join(t *Target) {
	k := groupKey{&r.others, t.Service}
	if t.Probe.Type == sources.CheckExec {
		k.lane = &r.programs
	}
	g := r.groups[k]
	if g == nil {
		g = &group{groupKey: k}
		r.groups[k] = g
		now := r.now()
		for i := range g.shares {
			g.shares[i].class = &k.lane.classes[i]
			r.charge(&g.shares[i], unknownUsed*forgets.Seconds(), now)
		}
	}
	g.targets++
	t.group = g
}

// leave forgets a target that has no place and waits for none.
func (r *Runner) leave(t *Target) {
	if t.group.targets--; t.group.targets == 0 {
		delete(r.groups, t.group.groupKey)
	}
}

// take gives a target a place.
func (r *Runner) take(t *Target) {
	s := t.share()
	s.remove(t)
	if s.running++; len(s.due) > 0 {
		heap.Fix(&s.class.ready, s.place)
	}
	s.class.running++
	t.group.lane.running++
}

// free takes a target's place back, and notes what it used.
func (r *Runner) free(t *Target, now time.Duration) {
	s := t.share()
	s.running--
	s.class.running--
	t.group.lane.running--
	t.known = true
	held := now - t.started
	if held > promptly {
		t.quick, t.slowUntil = 0, now+slowFor
	} else if t.quick < promptAfter {
		t.quick++
	}
	r.charge(s, held.Seconds()/float64(t.group.lane.places)+1/float64(r.limits.PerSecond), now)
}

// cut ends probes of prompt and fresh targets that hold their places for longer than promptly while others
// wait for one. Their targets are slow from then on, and are probed again in the places for those. So
// services whose targets hang all at once, as many as there are places, do not keep others from being probed
// until the timeouts are over.
func (r *Runner) cut(l *lane, now time.Duration) {
	ready := 0
	for class := range slow {
		for _, s := range l.classes[class].ready {
			ready += len(s.due)
		}
	}
	if ready == 0 || l.running < l.places {
		return
	}
	for _, t := range r.running {
		if t.group.lane != l || t.class == slow || t.cut || now-t.started <= promptly {
			continue
		}
		if t.cut = true; t.cancel != nil {
			t.cancel()
		}
		if ready--; ready == 0 {
			return
		}
	}
}

// charge adds to what a share used: its part of the places and of the pace, in seconds of all of both. What
// it used earlier counts less as time goes on. So that only the share that changes has to be looked at,
// earlier use stays as it is, and later use is multiplied instead.
func (r *Runner) charge(s *share, cost float64, now time.Duration) {
	age := float64(now-r.charged) / float64(forgets)
	if age > 100 {
		for _, g := range r.groups {
			for i := range g.shares {
				g.shares[i].used *= math.Exp(-age) // the order stays, but for those that become 0
			}
		}
		for _, l := range []*lane{&r.programs, &r.others} {
			for i := range l.classes {
				heap.Init(&l.classes[i].ready)
			}
		}
		r.charged, age = now, 0
	}
	s.used += cost * math.Exp(age)
	if len(s.due) > 0 {
		heap.Fix(&s.class.ready, s.place)
	}
}

// classify sets the class of a target that is due.
func (t *Target) classify(now time.Duration) {
	switch {
	case !t.known:
		t.class = fresh
	case t.slowUntil > 0 && (t.quick < promptAfter || now < t.slowUntil):
		t.class = slow
	default:
		t.class = prompt
	}
}

// share returns that of a target which is due or running.
func (t *Target) share() *share { return &t.group.shares[t.class] }

// dueHeap has targets in the order in which they get places, for container/heap.
type dueHeap []queued

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = int32(i), int32(j)
}
func (h *dueHeap) Push(x any) {
	q := x.(queued)
	q.place = int32(len(*h))
	*h = append(*h, q)
}
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = queued{}
	*h = (*h)[:last]
	return q
}

// shareHeap has the shares of a class, the one that is next first, for container/heap. What is held now comes
// before what was used: it is charged only when it ends, and a service with many targets would take many
// places at once.
type shareHeap []*share

func (h shareHeap) Len() int { return len(h) }
func (h shareHeap) Less(i, j int) bool {
	if h[i].running != h[j].running {
		return h[i].running < h[j].running
	}
	if h[i].used != h[j].used {
		return h[i].used < h[j].used
	}
	return len(h[j].due) > 0 && len(h[i].due) > 0 && h[i].due[0].due < h[j].due[0].due
}
func (h shareHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
func (h *shareHeap) Push(x any) {
	s := x.(*share)
	s.place = len(*h)
	*h = append(*h, s)
}
func (h *shareHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
