package top

import (
	"cmp"
	"slices"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// rates are what changed between two readings, for each second.
type rates struct {
	known          bool // there was an earlier reading
	conns, in, out float64
}

func (r rates) bytes() float64 { return r.in + r.out }

// ratesOf are those between two sums, so many seconds apart. A sum that became
// smaller is of a virtual server that was made anew: it counts from 0.
func ratesOf(now, before status.Traffic, seconds float64) rates {
	if seconds <= 0 {
		return rates{}
	}
	per := func(now, before uint64) float64 {
		if now < before {
			before = 0
		}
		return float64(now-before) / seconds
	}
	return rates{
		known: true, conns: per(now.Connections, before.Connections),
		in: per(now.InBytes, before.InBytes), out: per(now.OutBytes, before.OutBytes),
	}
}

// row is a service with its rates.
type row struct {
	*status.Service
	rates
}

// rowsOf are the services of a status, with their rates since an earlier one,
// and the rates of all together.
func rowsOf(now, before *status.Status) ([]row, rates) {
	seconds := 0.0
	if !before.Time.IsZero() {
		seconds = now.Time.Sub(before.Time).Seconds()
	}
	rows := make([]row, len(now.Services))
	total := rates{known: seconds > 0}
	for i := range now.Services {
		s := &now.Services[i]
		rows[i].Service = s
		// One that was not there before has no rate yet.
		at, found := slices.BinarySearchFunc(before.Services, s.Name, func(s status.Service, name string) int { return cmp.Compare(s.Name, name) })
		if !found {
			continue
		}
		r := ratesOf(s.Traffic, before.Services[at].Traffic, seconds)
		rows[i].rates = r
		total.conns, total.in, total.out = total.conns+r.conns, total.in+r.in, total.out+r.out
	}
	return rows, total
}

// order sorts rows; those that are alike stay sorted by name.
func order(rows []row, by Sort) {
	if by == ByName {
		return // as they come
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		if by == ByBytes {
			return cmp.Or(cmp.Compare(b.bytes(), a.bytes()), cmp.Compare(b.Active, a.Active))
		}
		return cmp.Or(cmp.Compare(b.conns, a.conns), cmp.Compare(b.Active, a.Active))
	})
}
