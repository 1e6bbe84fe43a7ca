package probe

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestQueue compares a queue with a map: the first target is always one that is due first.
func TestQueue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var q queue
	waits := map[*Target]bool{}
	now := time.Duration(0)
	for n := range 20000 {
		if rnd.IntN(5) < 2 || len(waits) == 0 {
			x := target(n)
			x.due = now + time.Duration(rnd.IntN(1000))*time.Millisecond
			q.push(x)
			waits[x] = true
		}
		var least *Target
		for x := range waits {
			if least == nil || x.due < least.due {
				least = x
			}
		}
		switch first := q.first(); {
		case first == nil || first.due != least.due || q.size != len(waits):
			t.Fatalf("step %d: first of %d targets is %+v, want %+v of %d", n, q.size, first, least, len(waits))
		case rnd.IntN(4) == 0: // some target
			for least = range waits {
				break
			}
		default:
			least, now = first, first.due
		}
		if rnd.IntN(5) < 2 {
			q.remove(least)
			delete(waits, least)
		}
	}
	for x := range waits {
		q.remove(x)
	}
	if q.first() != nil || q.size != 0 || len(q.slots) != 0 || len(q.order) != 0 {
		t.Errorf("an empty queue is %+v", q)
	}
}
