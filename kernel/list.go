package kernel

import (
	"iter"
	"slices"
	"strings"
)

// List is how generic code reads and writes the objects of one kind in a State,
// without knowing their type. Objects given to it must be of the kind.
type List interface {
	// Len counts the objects.
	Len(s State) int
	// All gives the objects in their order.
	All(s State) iter.Seq[Object]
	// Equal reports whether two states have equal objects.
	Equal(a, b State) bool
	// Differences walks two states side by side. It is nil if they have equal objects,
	// and allocates nothing then.
	Differences(want, have State) Differences

	// Find returns the object with the same key, nil if there is none.
	Find(s State, o Object) Object
	// Put adds an object, or replaces the one with the same key, in place.
	Put(s *State, o Object)
	// Delete removes the object with the same key, in place.
	Delete(s *State, o Object)

	// Follow carries ops out, in a new slice. No two ops are about one object, but
	// for an object that is removed and added again.
	Follow(s *State, ops []Op)
	// Share takes the slice of another state.
	Share(s *State, from State)

	clone(s *State)
	sort(s *State)
	text(b *strings.Builder, s State)
	parse(s *State, f []string) error
}

// Differences are the objects in which two states differ.
type Differences interface {
	// Next returns the next pair that differs. An object that only one state has is nil
	// for the other; both are nil at the end.
	Next() (w, h Object)
}

// list is the List of objects of type T. same may be nil for ==, read for kinds that
// have a parser of their own.
type list[T interface {
	comparable
	Object
}] struct {
	get     func(State) []T
	set     func(*State, []T)
	compare func(a, b T) int
	same    func(a, b *T) bool
	read    func(f []string) (T, error)
}

func (l list[T]) Len(s State) int { return len(l.get(s)) }

func (l list[T]) All(s State) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, o := range l.get(s) {
			if !yield(o) {
				return
			}
		}
	}
}

func (l list[T]) equal(a, b *T) bool {
	if l.same != nil {
		return l.same(a, b)
	}
	return *a == *b
}

func (l list[T]) Equal(a, b State) bool {
	one, other := l.get(a), l.get(b)
	return len(one) == len(other) && l.common(one, other) == len(one)
}

// common counts the objects at the beginning that are equal.
func (l list[T]) common(a, b []T) int {
	n := min(len(a), len(b))
	if SameSlice(a[:n], b[:n]) {
		return n
	}
	for i := range n {
		if !l.equal(&a[i], &b[i]) {
			return i
		}
	}
	return n
}

func (l list[T]) Differences(want, have State) Differences {
	w, h := l.get(want), l.get(have)
	n := l.common(w, h)
	if n == len(w) && n == len(h) {
		return nil
	}
	return &differences[T]{l, w[n:], h[n:]}
}

// differences are what is left to compare of two states.
type differences[T interface {
	comparable
	Object
}] struct {
	list       list[T]
	want, have []T
}

func (d *differences[T]) Next() (w, h Object) {
	for len(d.want) > 0 && len(d.have) > 0 && d.list.equal(&d.want[0], &d.have[0]) {
		d.want, d.have = d.want[1:], d.have[1:]
	}
	c := 0
	switch {
	case len(d.want) == 0 && len(d.have) == 0:
		return nil, nil
	case len(d.want) == 0:
		c = 1
	case len(d.have) == 0:
		c = -1
	default:
		c = d.list.compare(d.want[0], d.have[0])
	}
	if c <= 0 {
		w, d.want = d.want[0], d.want[1:]
	}
	if c >= 0 {
		h, d.have = d.have[0], d.have[1:]
	}
	return w, h
}

func (l list[T]) Find(s State, o Object) Object {
	all := l.get(s)
	if i, found := slices.BinarySearchFunc(all, o.(T), l.compare); found {
		return all[i]
	}
	return nil
}

func (l list[T]) Put(s *State, o Object) {
	all := l.get(*s)
	i, found := slices.BinarySearchFunc(all, o.(T), l.compare)
	if found {
		all[i] = o.(T)
	} else {
		l.set(s, slices.Insert(all, i, o.(T)))
	}
}

func (l list[T]) Delete(s *State, o Object) {
	all := l.get(*s)
	if i, found := slices.BinarySearchFunc(all, o.(T), l.compare); found {
		l.set(s, slices.Delete(all, i, i+1))
	}
}

func (l list[T]) Follow(s *State, ops []Op) {
	if len(ops) == 0 {
		return
	}
	have := l.get(*s)
	now := make([]T, 0, max(len(have)+grown(ops), 0))
	for v, verb := range l.last(ops) {
		before := 0 // of have, that come before it; mostly none where there are many ops
		if len(have) > 0 && l.compare(have[0], v) < 0 {
			before, _ = slices.BinarySearchFunc(have, v, l.compare)
		}
		now = append(now, have[:before]...)
		have = have[before:]
		if len(have) > 0 && l.compare(have[0], v) == 0 {
			have = have[1:]
		}
		if verb != Remove {
			now = append(now, v)
		}
	}
	l.set(s, append(now, have...))
}

// last gives the object of each op in order, with its verb; the last one if several are
// about one object.
func (l list[T]) last(ops []Op) iter.Seq2[T, Verb] {
	order := func(a, b Op) int { return l.compare(a.Object.(T), b.Object.(T)) }
	if !slices.IsSortedFunc(ops, order) { // a plan has those of one phase in order
		ops = slices.Clone(ops)
		slices.SortStableFunc(ops, order)
	}
	return func(yield func(T, Verb) bool) {
		for i, o := range ops {
			if i+1 < len(ops) && order(ops[i+1], o) == 0 {
				continue
			}
			if !yield(o.Object.(T), o.Verb) {
				return
			}
		}
	}
}

// grown is how many more objects there are after ops.
func grown(ops []Op) (n int) {
	for _, o := range ops {
		switch o.Verb {
		case Add:
			n++
		case Remove:
			n--
		}
	}
	return n
}

func (l list[T]) Share(s *State, from State) { l.set(s, l.get(from)) }

func (l list[T]) clone(s *State) { l.set(s, slices.Clone(l.get(*s))) }

func (l list[T]) sort(s *State) {
	all := l.get(*s)
	sortUnique(&all, l.compare)
	l.set(s, all)
}

func (l list[T]) text(b *strings.Builder, s State) {
	for _, o := range l.get(s) {
		b.WriteString(o.String())
		b.WriteByte('\n')
	}
}

func (l list[T]) parse(s *State, f []string) error {
	o, err := l.read(f)
	if err != nil {
		return err
	}
	l.set(s, append(l.get(*s), o))
	return nil
}
