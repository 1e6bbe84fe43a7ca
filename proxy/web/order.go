package web

import (
	"cmp"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// orders are the columns by which services can be sorted. Numbers have the largest first. A "-" in front of a
// name turns the order around. Any other name is the usual order: trouble first.
var orders = map[string]func(r rates, a, b *status.Service) int{
	"name":     func(_ rates, a, b *status.Service) int { return natural(a.Name, b.Name) },
	"address":  func(_ rates, a, b *status.Service) int { return compareAddress(a, b) },
	"backends": func(_ rates, a, b *status.Service) int { return cmp.Compare(b.Backends.Serving, a.Backends.Serving) },
	"active":   func(_ rates, a, b *status.Service) int { return cmp.Compare(b.Active, a.Active) },
	"conns":    func(r rates, a, b *status.Service) int { return cmp.Compare(r[b.Name].Conns, r[a.Name].Conns) },
	"in":       func(r rates, a, b *status.Service) int { return cmp.Compare(r[b.Name].In, r[a.Name].In) },
	"out":      func(r rates, a, b *status.Service) int { return cmp.Compare(r[b.Name].Out, r[a.Name].Out) },
	"state":    func(_ rates, a, b *status.Service) int { return cmp.Compare(severity(a), severity(b)) },
}

// order sorts services. Those that are alike are in natural order of their names.
func (v *view) order(list []*status.Service) {
	name, back := strings.CutPrefix(v.sort, "-")
	by, known := orders[name]
	if !known {
		by, back = orders["state"], false
	}
	var now rates
	if v.past != nil {
		now = v.past.Rates()
	}
	slices.SortStableFunc(list, func(a, b *status.Service) int {
		c := by(now, a, b)
		if back {
			c = -c
		}
		return cmp.Or(c, natural(a.Name, b.Name))
	})
}

// rates are what services got in the last sample of the past, by name.
type rates = map[string]status.PastRate

// severity orders services by what is wrong with them, the worst first.
func severity(s *status.Service) int {
	style := s.State.Style()
	switch {
	case style == screen.Bad:
		return 0
	case s.Health.Trouble(), style == screen.Warn:
		return 1
	case s.Backends.Draining > 0:
		return 2
	}
	return 3
}

// compareAddress compares the first addresses.
func compareAddress(a, b *status.Service) int {
	if len(a.Virtuals) == 0 || len(b.Virtuals) == 0 {
		return cmp.Compare(len(b.Virtuals), len(a.Virtuals))
	}
	return a.Virtuals[0].Address.Compare(b.Virtuals[0].Address)
}

// natural compares names as people do: digits by their number, so "web2" comes before "web10".
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// digits is how many digits a text begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
