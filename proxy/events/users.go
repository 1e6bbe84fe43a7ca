package events

import (
	"slices"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// users are the services that have a target. The index is made when it is asked for, once for each table.
type users struct {
	table sources.Table
	of    map[health.Key][]int32 // indexes in table
}

// servicesOf names the services of targets, sorted.
func (h *Health) servicesOf(list ...health.Event) []string {
	u := &h.users
	if t := h.Table(); u.of == nil || !sameTable(t, u.table) {
		*u = indexed(t)
	}
	seen := map[int32]bool{}
	var names []string
	for _, e := range list {
		for _, i := range u.of[e.Key] {
			if !seen[i] {
				seen[i] = true
				names = append(names, u.table.Services.At(int(i)).DisplayName())
			}
		}
	}
	slices.Sort(names)
	return names
}

// sameTable reports whether two tables share their memory.
func sameTable(a, b sources.Table) bool {
	return a.Services.Len() == b.Services.Len() && (a.Services.Len() == 0 || a.Services.At(0) == b.Services.At(0))
}

func indexed(t sources.Table) users {
	targets := health.Targets(t)
	u := users{t, make(map[health.Key][]int32, len(targets))}
	all := make([]int32, 0, len(targets)) // one for each target, as a rule
	for i := range targets {
		x, from := &targets[i], len(all)
		for _, user := range x.Users { // in the order of services
			if n := len(all); n == from || all[n-1] != user.Service {
				all = append(all, user.Service)
			}
		}
		u.of[x.Key] = all[from:len(all):len(all)]
	}
	return u
}
