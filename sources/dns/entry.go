package dns

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
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
	Lost      []string              // why targets of its SRV records are left out, or have their last addresses
	Why       string                // why there was no good answer the last time; "" = there was one
	Good      time.Time             // when an answer last had addresses
	Until     time.Time             // how long that counts; zero: not known to end
	Stale     bool                  // it was over while servers failed: for services without other endpoints
}

// Policy says how long answers count.
type Policy struct {
	MinTTL, MaxTTL time.Duration // between two questions for a name
	Keep           time.Duration // how long the last good answer counts while the name fails, at least
	EmptyGrace     time.Duration // how long it counts when the answer is that the name, or a target, has no address
}

// answer is a good answer of the servers.
type answer struct {
	addresses []sources.NameAddress // none: the name has none
	ttl       time.Duration
	hosts     map[string][]netip.Addr // of the targets of SRV records
	lost      []lost
}

// lost is an SRV record whose target has no address.
type lost struct {
	target
	backup bool
	why    error
}

// host is what is known of a target of SRV records.
type host struct {
	addrs []netip.Addr
	empty time.Time // since when it has none; zero: it has these
}

// errNone says that a name has no address or does not exist. An answer that says so is a good one.
var errNone = errors.New("has no address")

// entry is what is known of one Key. Its zero is a name that was never asked for.
type entry struct {
	Known
	hosts map[string]host
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
		if len(a.lost) > 0 {
			err = a.lost[0].why
		}
	}
	if err == nil {
		a, next.Lost, next.hosts = e.found(a, now, p)
		slices.SortFunc(a.addresses, compareAddresses)
		a.addresses = slices.CompactFunc(a.addresses, sameAddress)
		cut := max(0, len(a.addresses)-sources.MostAddresses)
		next.Known = Known{Addresses: a.addresses[:len(a.addresses)-cut], Cut: cut, Lost: next.Lost, Good: now}
		next.empty, next.tries = time.Time{}, 0
		next.due = now.Add(min(max(a.ttl, p.MinTTL), p.MaxTTL))
		return next, !e.same(&next)
	}
	next.Why, next.Lost, next.Until = err.Error(), nil, time.Time{}
	next.tries++
	end, failed := e.Good.Add(p.Keep), !errors.Is(err, errNone)
	switch {
	case failed:
		next.empty = time.Time{}
	case e.empty.IsZero():
		next.empty = now
		fallthrough
	default:
		end = next.empty.Add(p.EmptyGrace)
	}
	next.due = now.Add(p.again(next.tries))
	switch {
	case len(e.Addresses) == 0:
	case now.Before(end):
		next.Until = end
		if end.Before(next.due) {
			next.due = end
		}
	case failed:
		next.Stale = true
	default:
		next.Addresses, next.Cut, next.Stale = nil, 0, false
	}
	return next, !e.same(&next)
}

// found returns a good answer in which lost targets have their last addresses for EmptyGrace, what is to be said about
// them, and what is known of targets then.
func (e *entry) found(a answer, now time.Time, p Policy) (answer, []string, map[string]host) {
	if a.hosts == nil {
		return a, nil, nil
	}
	hosts := map[string]host{}
	for name, addrs := range a.hosts {
		hosts[name] = host{addrs: addrs}
	}
	var said []string
	for _, l := range a.lost {
		a.ttl = min(a.ttl, mostPause)
		h := e.hosts[l.host]
		if h.empty.IsZero() {
			h.empty = now
		}
		hosts[l.host] = h
		end := h.empty.Add(p.EmptyGrace)
		if len(h.addrs) == 0 || !now.Before(end) {
			said = append(said, fmt.Sprintf("%v: it is left out", l.why))
			continue
		}
		a.ttl = min(a.ttl, end.Sub(now))
		said = append(said, fmt.Sprintf("%v: its last addresses are used until %s", l.why, clock(end, p.EmptyGrace)))
		a.addresses = append(a.addresses, addressesOf(h.addrs, l.target, uint32(l.weight), l.backup)...)
	}
	slices.Sort(said)
	return a, slices.Compact(said), hosts
}

// day is a time with its date.
func day(t time.Time) string { return clock(t, 24*time.Hour) }

// clock is the time of day, with the date if it ends a long span.
func clock(t time.Time, span time.Duration) string {
	if span > 12*time.Hour {
		return t.Local().Format("2006-01-02 15:04")
	}
	return t.Local().Format("15:04")
}

func (e *entry) same(o *entry) bool {
	return e.asked == o.asked && e.Why == o.Why && e.Cut == o.Cut && e.Stale == o.Stale && e.Until.Equal(o.Until) &&
		slices.Equal(e.Lost, o.Lost) && slices.Equal(e.Addresses, o.Addresses)
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
