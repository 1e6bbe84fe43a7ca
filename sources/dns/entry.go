package dns

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Key is what is asked for: the addresses of one family that a name has, or that the targets of its SRV records have.
type Key struct {
	Host    string
	SRV, V6 bool
}

func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Host, o.Host), sources.CompareBools(k.SRV, o.SRV), sources.CompareBools(k.V6, o.V6))
}

// Known is what a name stands for.
type Known struct {
	Addresses []sources.NameAddress // sorted, MostAddresses at most
	Cut       int                   // how many more there were
	Why       string                // why there was no good answer the last time; "" = there was one
}

// Policy says how long answers count.
type Policy struct {
	MinTTL, MaxTTL time.Duration // between two questions for a name
	Keep           time.Duration // how long the last good answer counts while the name fails
	EmptyGrace     time.Duration // how long it counts when the answer is that the name has no address
}

// answer is a good answer of the servers.
type answer struct {
	addresses []sources.NameAddress // none: the name has none
	ttl       time.Duration
}

// errNone says that a name has no address or does not exist. An answer that says so is a good one.
var errNone = errors.New("has no address")

// entry is what is known of one Key. Its zero is a name that was never asked for.
type entry struct {
	Known
	good  time.Time // when an answer last had addresses
	empty time.Time // since when answers have none; zero: the last one had some, or failed
	due   time.Time // when to ask again; zero: at once
	tries int       // since the last answer with addresses
	asked bool
}

// after returns the entry after an outcome, and whether it stands for something else. An answer in another order is
// none.
func (e entry) after(a answer, err error, now time.Time, p Policy) (next entry, changed bool) {
	next = e
	next.asked = true
	if err == nil && len(a.addresses) == 0 {
		err = errNone
	}
	if err == nil {
		slices.SortFunc(a.addresses, compareAddresses)
		a.addresses = slices.CompactFunc(a.addresses, sameAddress)
		cut := max(0, len(a.addresses)-sources.MostAddresses)
		next.Known = Known{Addresses: a.addresses[:len(a.addresses)-cut], Cut: cut}
		next.good, next.empty, next.tries = now, time.Time{}, 0
		next.due = now.Add(min(max(a.ttl, p.MinTTL), p.MaxTTL))
		return next, !e.same(&next)
	}
	next.Why = err.Error()
	next.tries++
	end := e.good.Add(p.Keep)
	switch {
	case !errors.Is(err, errNone):
		next.empty = time.Time{}
	case e.empty.IsZero():
		next.empty = now
		fallthrough
	default:
		end = next.empty.Add(p.EmptyGrace)
	}
	next.due = now.Add(p.again(next.tries))
	if len(e.Addresses) > 0 && !now.Before(end) {
		next.Addresses, next.Cut = nil, 0
	} else if len(e.Addresses) > 0 && end.Before(next.due) {
		next.due = end
	}
	return next, !e.same(&next)
}

func (e *entry) same(o *entry) bool {
	return e.asked == o.asked && e.Why == o.Why && e.Cut == o.Cut && slices.Equal(e.Addresses, o.Addresses)
}

// mostPause is the longest time between two questions for a name that has no good answer.
const mostPause = 30 * time.Second

// again is the time to the next question after some that had no good answer: 1 s, 2 s, 4 s, .. mostPause.
func (p Policy) again(tries int) time.Duration {
	return min(max(p.MinTTL, min(time.Second<<min(tries-1, 10), mostPause)), max(p.MaxTTL, p.MinTTL))
}

func compareAddresses(a, b sources.NameAddress) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Port, b.Port), sources.CompareBools(a.Backup, b.Backup),
		cmp.Compare(b.Weight, a.Weight))
}

// sameAddress reports whether two are one endpoint. Of several SRV records for it the first in order counts.
func sameAddress(a, b sources.NameAddress) bool { return a.Addr == b.Addr && a.Port == b.Port }
