package ipset

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// maxMessage is the longest message of entries, in bytes. nl.MaxMessages of them fill one send of
// nl.MaxSend, and each holds five or six entries. Longer messages save few system calls. 100,000
// entries took 37 ms of CPU time in messages of this size, 26 ms in messages of 1,000 entries, and
// 68 ms one by one (Linux 6.18). In return a bad entry makes only a handful of others be sent
// again.
const maxMessage = nl.MaxSend / nl.MaxMessages

// ErrNotSwapped is the error of a swap that was not tried, because its new set could not be filled.
// The swap would take entries away from rules.
var ErrNotSwapped = errors.New("not swapped, the new set could not be filled")

// span is the run of ops in one message.
type span struct{ first, n int }

// Apply carries out the ops in order and continues after errors. The result has one error per op,
// and is nil if all succeeded. It handles kernel.Set (Add, Remove), kernel.Entry (Add, Remove) and
// kernel.Swap (Change).
//
// Successive entries of one set share a message. ipset stops such a message at its first bad entry.
// So the entries of a rejected message are sent again one by one: after the other messages, and
// before their set is swapped or destroyed. One call must not have two ops on the same entry.
func (s *Sets) Apply(ops []kernel.Op) []error {
	a := applying{Sets: s, ops: ops}
	s.batch.Reset()
	s.spans = s.spans[:0]
	for i := 0; i < len(ops); {
		// Send a full batch first, so that the batch never grows beyond one send.
		if a.batch.Len() == nl.MaxMessages || a.batch.Size()+maxMessage > nl.MaxSend {
			a.send()
		}
		i += a.put(i)
	}
	a.send()
	return a.errs
}

// applying is one call of Apply.
type applying struct {
	*Sets
	ops  []kernel.Op
	errs []error // nil until one fails
	dead error   // why nothing can be sent any more

	unfilled map[string]bool // sets that lack entries of ops before a swap
}

// put adds the op at i to the batch, and those after it that share its message. It returns their
// number.
func (a *applying) put(i int) int {
	op := a.ops[i]
	switch o := op.Object.(type) {
	case kernel.Entry:
		if o.Goto != "" || o.ToPort != 0 || op.Verb == kernel.Change {
			a.fail(i, fmt.Errorf("%s is a map, which only nftables has", o.Set))
			return 1
		}
		return a.putEntries(i, o.Set)
	case kernel.Set:
		switch op.Verb {
		case kernel.Add:
			if err := putCreate(&a.batch, o); err != nil {
				a.fail(i, err)
				return 1
			}
		case kernel.Remove:
			a.flush(o.Name)
			putDestroy(&a.batch, o.Name)
		default:
			a.fail(i, errors.New("a set cannot be changed, only replaced"))
			return 1
		}
	case kernel.Swap:
		a.flush(o.From)
		a.flush(o.To)
		if a.unfilled[o.From] {
			a.fail(i, fmt.Errorf("%w: %s", ErrNotSwapped, o.From))
			return 1
		}
		putSwap(&a.batch, o)
	default:
		a.fail(i, fmt.Errorf("ipset does not handle objects of kind %s", op.Object.Kind()))
		return 1
	}
	a.spans = append(a.spans, span{i, 1})
	return 1
}

// putEntries adds one message of entries to the batch.
func (a *applying) putEntries(i int, set string) int {
	verb := a.ops[i].Verb
	end := a.batch.Size() + maxMessage
	mark := beginEntries(&a.batch, verb, set)
	n := 0
	for size := 0; i+n < len(a.ops) && a.batch.Size()+size <= end; n++ {
		e, ok := a.ops[i+n].Object.(kernel.Entry)
		if !ok || e.Set != set || a.ops[i+n].Verb != verb || e.Goto != "" || e.ToPort != 0 {
			break
		}
		size = -a.batch.Size()
		putEntry(&a.batch, &e)
		size += a.batch.Size() // the size of the next one too
	}
	a.batch.EndNest(mark)
	a.batch.End()
	a.spans = append(a.spans, span{i, n})
	return n
}

// flush sends the batch if it has entries of a set.
func (a *applying) flush(set string) {
	for _, sp := range a.spans {
		if e, ok := a.ops[sp.first].Object.(kernel.Entry); ok && e.Set == set {
			a.send()
			return
		}
	}
}

// send sends the batch, and then, one by one, the entries of messages that stopped at a bad one.
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

// exchange sends and empties the batch. It returns the messages that must be split to learn which
// op failed.
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
		// The order of later messages would be unknown.
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
		// An entry that no set of the type can hold is not in the old set either.
		if !aboutEntry(err) {
			a.unfilled[o.Set] = true
		}
	}
}
