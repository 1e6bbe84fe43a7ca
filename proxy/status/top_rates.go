package status

import (
	"cmp"
	"slices"
)

// rates say by how much counters grew between two statuses, per second.
type rates struct {
	known          bool // there is an earlier status
	newOnly        bool // bytes are not known
	conns, in, out float64
}

// ratesOf compares two sums that were read this many seconds apart. A sum that
// fell is of a virtual server that was made again: it counts from 0.
func ratesOf(now, before Traffic, seconds float64) rates {
	if seconds <= 0 {
		return rates{}
	}
	per := func(now, before Count) float64 {
		if now < before {
			before = 0
		}
		return float64(now-before) / seconds
	}
	return rates{
		known: true, conns: per(Count(now.Connections), Count(before.Connections)),
		in: per(now.InBytes, before.InBytes), out: per(now.OutBytes, before.OutBytes),
	}
}

// serviceRates is a service with its rates.
type serviceRates struct {
	*Service
	rates
	endpoints []endpointRates
}

// endpointRates is an endpoint with its rates.
type endpointRates struct {
	*Endpoint
	rates
}

// endpointRatesOf returns a service's endpoints with their rates since an earlier
// status.
func endpointRatesOf(now, before *Service, seconds float64, newOnly bool) []endpointRates {
	list := make([]endpointRates, len(now.Endpoints))
	for i := range now.Endpoints {
		e := &now.Endpoints[i]
		list[i].Endpoint = e
		same := func(b Endpoint) bool {
			return b.Address == e.Address && b.Protocol == e.Protocol && b.Port == e.Port
		}
		if at := slices.IndexFunc(before.Endpoints, same); at >= 0 && e.Traffic != nil &&
			before.Endpoints[at].Traffic != nil {
			list[i].rates = ratesOf(*e.Traffic, *before.Endpoints[at].Traffic, seconds)
			list[i].newOnly = newOnly
		}
	}
	return list
}

// serviceRatesOf returns the services of a status with their rates since an
// earlier status, and the sum of these rates.
func serviceRatesOf(now, before *Status) ([]serviceRates, rates) {
	seconds := 0.0
	if !before.Time.IsZero() && (!now.Uncounted || now.NewOnly && before.NewOnly) {
		seconds = now.Time.Sub(before.Time).Seconds()
	}
	rows := make([]serviceRates, len(now.Services))
	total := rates{known: seconds > 0, newOnly: now.NewOnly}
	for i := range now.Services {
		s := &now.Services[i]
		rows[i].Service = s
		// A new service has no rate yet.
		at, found := slices.BinarySearchFunc(before.Services, s.Name, func(s Service, name string) int {
			return cmp.Compare(s.Name, name)
		})
		if !found {
			rows[i].endpoints = endpointRatesOf(s, &Service{}, 0, now.NewOnly)
			continue
		}
		rows[i].endpoints = endpointRatesOf(s, &before.Services[at], seconds, now.NewOnly)
		r := ratesOf(s.Traffic, before.Services[at].Traffic, seconds)
		r.newOnly = now.NewOnly
		rows[i].rates = r
		total.conns, total.in, total.out = total.conns+r.conns, total.in+r.in, total.out+r.out
	}
	return rows, total
}

// topSort is what `svcproxy top` sorts services and endpoints by.
type topSort byte

// The orders, each the key that selects it. The zero value sorts by connections.
const (
	byConns topSort = 'c' // connections per second
	byBytes topSort = 'b' // bytes per second, both ways
	byName  topSort = 'n'
)

// sort sorts services and their endpoints; equal ones stay sorted by name.
func (by topSort) sort(rows []serviceRates) {
	if by == byName {
		return // a status is sorted by name
	}
	slices.SortStableFunc(rows, func(a, b serviceRates) int {
		return cmp.Or(by.compare(a.rates, b.rates), cmp.Compare(b.Active, a.Active))
	})
	for _, r := range rows {
		slices.SortStableFunc(r.endpoints, func(a, b endpointRates) int {
			return cmp.Or(by.compare(a.rates, b.rates), cmp.Compare(b.Active, a.Active), cmp.Compare(b.Inactive, a.Inactive))
		})
	}
}

// compare orders rates, the highest first.
func (by topSort) compare(a, b rates) int {
	if by == byBytes {
		return cmp.Compare(b.in+b.out, a.in+a.out)
	}
	return cmp.Compare(b.conns, a.conns)
}
