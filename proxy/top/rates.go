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
	endpoints []endpoint
}

// endpoint is one with its rates.
type endpoint struct {
	*status.Endpoint
	rates
}

// endpointsOf are those of a service, with their rates since an earlier reading.
func endpointsOf(now, before *status.Service, seconds float64) []endpoint {
	list := make([]endpoint, len(now.Endpoints))
	for i := range now.Endpoints {
		e := &now.Endpoints[i]
		list[i].Endpoint = e
		same := func(b status.Endpoint) bool {
			return b.Address == e.Address && b.Protocol == e.Protocol && b.Port == e.Port
		}
		if at := slices.IndexFunc(before.Endpoints, same); at >= 0 && e.Traffic != nil && before.Endpoints[at].Traffic != nil {
			list[i].rates = ratesOf(*e.Traffic, *before.Endpoints[at].Traffic, seconds)
		}
	}
	return list
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
			rows[i].endpoints = endpointsOf(s, &status.Service{}, 0)
			continue
		}
		rows[i].endpoints = endpointsOf(s, &before.Services[at], seconds)
		r := ratesOf(s.Traffic, before.Services[at].Traffic, seconds)
		rows[i].rates = r
		total.conns, total.in, total.out = total.conns+r.conns, total.in+r.in, total.out+r.out
	}
	return rows, total
}

// order sorts rows, and the endpoints in them; those that are alike stay sorted
// by name.
func order(rows []row, by Sort) {
	if by == ByName {
		return // as they come
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(by.compare(a.rates, b.rates), cmp.Compare(b.Active, a.Active))
	})
	for _, r := range rows {
		slices.SortStableFunc(r.endpoints, func(a, b endpoint) int {
			return cmp.Or(by.compare(a.rates, b.rates), cmp.Compare(b.Active, a.Active), cmp.Compare(b.Inactive, a.Inactive))
		})
	}
}

// compare orders rates, the highest first.
func (s Sort) compare(a, b rates) int {
	if s == ByBytes {
		return cmp.Compare(b.bytes(), a.bytes())
	}
	return cmp.Compare(b.conns, a.conns)
}
