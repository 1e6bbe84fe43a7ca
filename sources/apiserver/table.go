//go:build !noapiserver

package apiserver

import (
	"maps"
	"reflect"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// table is the last emitted table, and what was left out of it. A change costs its own services and a copy of the
// list of services, but nothing for the endpoints of others.
type table struct {
	node string // this node's name

	sources.Table // not changed once emitted
	problems      map[name][]sources.Problem
}

// update converts the changes and says whether the table differs.
func (t *table) update(changes []change) bool {
	if t.problems == nil {
		t.problems = map[name][]sources.Problem{}
	}
	next := make([]sources.Service, 0, len(t.Services)+len(changes))
	rest := t.Services
	news, stay := false, true // all changed services are in both tables
	var delta sources.Delta
	for _, c := range changes {
		at, had := slices.BinarySearchFunc(rest, c.name, func(s sources.Service, n name) int {
			return name{s.Namespace, s.Name}.compare(n)
		})
		next = append(next, rest[:at]...)
		rest = rest[at:]
		s, problems, ok := t.convert(c)
		news = news || had != ok || ok && !reflect.DeepEqual(rest[0], s) || !slices.Equal(problems, t.problems[c.name])
		if had && ok {
			delta.Changes = append(delta.Changes, differing(rest[0], s, len(next))...)
		}
		stay = stay && had == ok
		if had {
			rest = rest[1:]
		}
		if ok {
			next = append(next, s)
		}
		if delete(t.problems, c.name); len(problems) > 0 {
			t.problems[c.name] = problems
		}
	}
	if !news {
		return false
	}
	now := sources.Table{Services: append(next, rest...)}
	if stay { // so that nothing walks over all services to find the few that changed
		now = now.After(t.Table, delta)
	}
	t.Table = now
	return true
}

// differing returns what differs between two services of one name that have the same index in their tables. Their
// origins are equal.
func differing(was, is sources.Service, at int) []sources.Change {
	changes := sources.Compare(sources.Table{Services: []sources.Service{was}}, sources.Table{Services: []sources.Service{is}}).Changes
	for i := range changes {
		changes[i].Was, changes[i].Is = at, at
	}
	return changes
}

// convert returns a service that can be served, and the problems of it or its endpoints.
func (t *table) convert(c change) (sources.Service, []sources.Problem, bool) {
	if !c.there {
		return sources.Service{}, nil, false
	}
	s, problems, ok := manifest.Convert(c.service, c.parts, t.node)
	if !ok {
		return s, problems, false
	}
	// Validate sees one service. Merge finds conflicts with others and with the node.
	s, left, ok := sources.Prune(s)
	return s, append(problems, left...), ok
}

// refused are all problems, sorted.
func (t *table) refused() []sources.Problem {
	all := slices.Concat(slices.Collect(maps.Values(t.problems))...)
	slices.SortFunc(all, func(a, b sources.Problem) int {
		return name{a.Service, a.Message}.compare(name{b.Service, b.Message})
	})
	return all
}
