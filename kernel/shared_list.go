package kernel

// sharedList is the List of objects of type T that a State has as a value of type L. Such
// values share memory with those that they were made from, so a change copies little.
type sharedList[T interface {
	comparable
	Object
}, L interface {
	Len() int
	Equal(L) bool
	With(gone, fresh []T) L
}] struct {
	list[T]
	value  func(State) L
	put    func(*State, L)
	sorted func(L) bool // and no two have one key
}

func (l sharedList[T, L]) Len(s State) int { return l.value(s).Len() }

func (l sharedList[T, L]) Equal(a, b State) bool { return l.value(a).Equal(l.value(b)) }

func (l sharedList[T, L]) Put(s *State, o Object) { l.replace(s, nil, []T{o.(T)}) }

func (l sharedList[T, L]) Delete(s *State, o Object) { l.replace(s, []T{o.(T)}, nil) }

func (l sharedList[T, L]) Follow(s *State, ops []Op) {
	var gone, fresh []T
	if len(ops) > 0 {
		for o, verb := range l.last(ops) {
			if verb == Remove {
				gone = append(gone, o)
			} else {
				fresh = append(fresh, o)
			}
		}
		l.replace(s, gone, fresh)
	}
}

// replace takes the objects of gone away and adds those of fresh. Both are sorted.
func (l sharedList[T, L]) replace(s *State, gone, fresh []T) {
	l.put(s, l.value(*s).With(gone, fresh))
}

func (l sharedList[T, L]) Share(s *State, from State) { l.put(s, l.value(from)) }

func (sharedList[T, L]) clone(*State) {} // the value never changes

func (l sharedList[T, L]) sort(s *State) {
	if !l.sorted(l.value(*s)) { // in a reading they mostly are
		l.list.sort(s)
	}
}
