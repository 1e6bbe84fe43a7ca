package ipset

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// maxMessage is how long a message of entries grows, in bytes: as long as
// nl.MaxMessages of them fill a send of nl.MaxSend, five or six entries. Longer
// ones save no system call to speak of and little else: 100,000 entries took
// 37 ms of CPU in messages of this size, 26 ms in messages of 1000 entries, and
// 68 ms one by one (Linux 6.18). In return a bad entry costs a handful of others
// a second message, and not a thousand.
const maxMessage = nl.MaxSend / nl.MaxMessages

// ErrNotSwapped says that a swap was not tried, because the set that was to
// take another's place could not be filled: it would take entries away from
// rules that use the other.
var ErrNotSwapped = errors.New("not swapped, the new set could not be filled")

// span is the run of ops that one message carries out.
type span struct{ first, n int }

// Apply carries the ops out in their order and goes on past errors. The result
// is parallel to ops, nil if all succeeded. It handles kernel.Set (Add, Remove),
// kernel.Entry (Add, Remove) and kernel.Swap (Change).
//
// Neighbouring entries of one set go in one message. ipset stops such a message
// at its first bad entry, so the entries of a refused message are sent again
// one by one, after the others; before the set they are for is swapped or
// destroyed. Ops on one and the same entry in one call would be unsafe.
func (s *Sets) Apply(ops []kernel.Op) []error {
	a := applying{Sets: s, ops: ops}
	s.batch.Reset()
	s.spans = s.spans[:0]
	for i := 0; i < len(ops); {
		// A full batch goes out first, so that it stays as small as one send
		// however long the plan is.
		if a.batch.Len() == nl.MaxMessages || a.batch.Size()+maxMessage > nl.MaxSend {
			a.send()
		}
		i += a.put(i)
	}
	a.send()
	return a.errs
}

// applying is one run of Apply.
type applying struct {
	*Sets
	ops  []kernel.Op
	errs []error // nil as long as none failed
	dead error   // nothing can be sent any more

	unfilled map[string]bool // sets that are not as the ops before a swap wanted
}

// put queues the op at i, and those after it that go in the same message, and
// says how many that were.
func (a *applying) put(i int) int {
	op := a.ops[i]
	switch o := op.Object.(type) {
	case kernel.Entry:
		return a.putEntries(i, o.Set)
	case kernel.Set:
		switch op.Verb {
		case kernel.Add:
			if err := putCreate(&a.batch, o); err != nil {
				a.fail(i, err)
				return 1
			}
		case kernel.Remove:
			a.settle(o.Name)
			putDestroy(&a.batch, o.Name)
		default:
			a.fail(i, errors.New("a set cannot be changed, only replaced"))
			return 1
		}
	case kernel.Swap:
		a.settle(o.From)
		a.settle(o.To)
		if a.unfilled[o.From] {
			a.fail(i, fmt.Errorf("%w: %s", ErrNotSwapped, o.From))
			return 1
		}
		putSwap(&a.batch, o)
	default:
		a.fail(i, fmt.Errorf("%s is not for ipset", op.Object.Kind()))
		return 1
	}
	a.spans = append(a.spans, span{i, 1})
	return 1
}

// putEntries queues one message of entries.
func (a *applying) putEntries(i int, set string) int {
	verb := a.ops[i].Verb
	end := a.batch.Size() + maxMessage
	mark := beginEntries(&a.batch, verb, set)
	n := 0
	for size := 0; i+n < len(a.ops) && a.batch.Size()+size <= end; n++ {
		e, ok := a.ops[i+n].Object.(kernel.Entry)
		if !ok || e.Set != set || a.ops[i+n].Verb != verb {
			break
		}
		size = -a.batch.Size()
		putEntry(&a.batch, &e)
		size += a.batch.Size() // the next one's, too
	}
	a.batch.EndNest(mark)
	a.batch.End()
	a.spans = append(a.spans, span{i, n})
	return n
}

// settle makes sure that what is to be in a set is in it.
func (a *applying) settle(set string) {
	for _, sp := range a.spans {
		if e, ok := a.ops[sp.first].Object.(kernel.Entry); ok && e.Set == set {
			a.send()
			return
		}
	}
}

// send sends what is queued, and again, one by one, the entries of messages
// that stopped at a bad one.
func (a *applying) send() {
	if a.batch.Len() == 0 {
		return
	}
	again := a.exchange()
	if len(again) > 0 {
		for _, sp := range again {
			for i := sp.first; i < sp.first+sp.n; i++ {
				op := a.ops[i]
				e := op.Object.(kernel.Entry)
				mark := beginEntries(&a.batch, op.Verb, e.Set)
				putEntry(&a.batch, &e)
				a.batch.EndNest(mark)
				a.batch.End()
				a.spans = append(a.spans, span{i, 1})
			}
		}
		a.exchange()
	}
}

// exchange sends the batch, empties it, and returns the messages that must be
// taken apart to know which op failed.
func (a *applying) exchange() (again []span) {
	err := a.dead
	if err == nil {
		err = a.conn.Send(&a.batch)
	}
	var failed *nl.BatchError
	switch {
	case errors.As(err, &failed):
		for i := range failed.Messages {
			m := &failed.Messages[i]
			sp := a.spans[m.Index]
			var refused *nl.KernelError
			if sp.n > 1 && errors.As(m.Err, &refused) {
				again = append(again, sp)
				continue
			}
			a.failAll(sp, m.Err)
		}
		// What would be sent after it could not be said to come after it.
		if errors.Is(failed, nl.ErrUnknown) && !errors.Is(failed, unix.ENOBUFS) {
			a.dead = fmt.Errorf("%w after a failure", nl.ErrUnsent)
		}
	case err != nil:
		for _, sp := range a.spans {
			a.failAll(sp, err)
		}
	}
	a.batch.Reset()
	a.spans = a.spans[:0]
	return again
}

func (a *applying) failAll(sp span, err error) {
	for i := sp.first; i < sp.first+sp.n; i++ {
		a.fail(i, reason(a.ops[i], err))
	}
}

func (a *applying) fail(i int, err error) {
	if a.errs == nil {
		a.errs = make([]error, len(a.ops))
	}
	a.errs[i] = err
	if a.unfilled == nil {
		a.unfilled = make(map[string]bool)
	}
	switch o := a.ops[i].Object.(type) {
	case kernel.Set:
		a.unfilled[o.Name] = true
	case kernel.Entry:
		// What no set of the type can hold is not in the old one either.
		if !aboutEntry(err) {
			a.unfilled[o.Set] = true
		}
	}
}
