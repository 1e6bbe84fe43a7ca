package probe

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// queue has the waiting targets, in slots of slotWidth by due time. Only a slot that becomes the first is sorted, so a
// target costs no more with 25,000 of them than with 100. A heap of 25,000 targets took 5 % of a runner's time.
// Its zero value is empty.
type queue struct {
	slots map[time.Duration]*slot // by when they begin
	order order
	size  int
	spare []queued // of the slot that was emptied last
}

// slotWidth is the time of a slot. A turn usually starts the targets of one.
const slotWidth = turnGap

// slot has the targets that are due within slotWidth from its begin. Due times are copied: reading them from 25,000
// targets would miss the processor's cache.
type slot struct {
	begin  time.Duration
	place  int // in the order
	due    []queued
	sorted bool // the last one is due first
}

type queued struct {
	due time.Duration
	*Target
}

// push adds a target by its due time.
func (q *queue) push(t *Target) {
	begin := t.due.Truncate(slotWidth)
	s := q.slots[begin]
	if s == nil {
		if q.slots == nil {
			q.slots = map[time.Duration]*slot{}
		}
		s = &slot{begin: begin, due: q.spare}
		q.slots[begin], q.spare = s, nil
		heap.Push(&q.order, s)
	}
	t.place = int32(len(s.due))
	s.due, s.sorted = append(s.due, queued{t.due, t}), len(s.due) == 0
	q.size++
}

// first returns the target that is due first, nil if there is none.
func (q *queue) first() *Target {
	if q.size == 0 {
		return nil
	}
	s := q.order[0]
	if !s.sorted {
		slices.SortFunc(s.due, func(a, b queued) int { return cmp.Compare(b.due, a.due) })
		for i := range s.due {
			s.due[i].place = int32(i)
		}
		s.sorted = true
	}
	return s.due[len(s.due)-1].Target
}

// remove removes a target, whose due time is the one with which it was pushed.
func (q *queue) remove(t *Target) {
	s := q.slots[t.due.Truncate(slotWidth)]
	last := len(s.due) - 1
	if int(t.place) != last {
		s.due[t.place], s.sorted = s.due[last], false
		s.due[t.place].place = t.place
	}
	s.due[last] = queued{}
	s.due = s.due[:last]
	q.size--
	if last == 0 {
		delete(q.slots, s.begin)
		heap.Remove(&q.order, s.place)
		q.spare = s.due
	}
}

// order is a heap of slots by begin, for container/heap.
type order []*slot

func (o order) Len() int           { return len(o) }
func (o order) Less(i, j int) bool { return o[i].begin < o[j].begin }
func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}
func (o *order) Push(s any) {
	s.(*slot).place = len(*o)
	*o = append(*o, s.(*slot))
}
func (o *order) Pop() any {
	last := len(*o) - 1
	s := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return s
}

// list is a set of targets that knows where each one is.
type list []*Target

func (l *list) add(t *Target) {
	t.place = int32(len(*l))
	*l = append(*l, t)
}

func (l *list) remove(t *Target) {
	last := len(*l) - 1
	moved := (*l)[last]
	(*l)[t.place] = moved
	moved.place = t.place
	(*l)[last] = nil
	*l = (*l)[:last]
}
