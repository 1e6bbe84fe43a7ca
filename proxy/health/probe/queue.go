package probe

// queue is a heap of targets by due time, for container/heap. The list that parks or runs targets uses its place
// field too.
type queue []*Target

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = int32(i), int32(j)
}
func (q *queue) Push(t any) {
	t.(*Target).place = int32(len(*q))
	*q = append(*q, t.(*Target))
}
func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return t
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

// oldest returns the target that has been due for the longest time, nil if there is none.
func (l list) oldest() *Target {
	var oldest *Target
	for _, t := range l {
		if oldest == nil || t.due < oldest.due {
			oldest = t
		}
	}
	return oldest
}
