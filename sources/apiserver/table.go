//go:build !noapiserver

package apiserver

import (
	"maps"
	"reflect"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// table is the last emitted table, and what was left out of it. A change of endpoints costs its own services,
// and one of services a copy of the list.
type table struct {
	node string // this node's name

	sources.Table // not changed once emitted
	problems      map[name][]sources.Problem
}

// edit is a service that changed.
type edit struct {
	service    sources.Service
	at         int  // where the table has it, or would have it
	had, stays bool // it is in the table, and in the next one
}

// update converts the changes and says whether the table differs.
func (t *table) update(changes []change) bool {
	if t.problems == nil {
		t.problems = map[name][]sources.Problem{}
	}
	edits := make([]edit, 0, len(changes))
	news, stay := false, true // all changed services are in both tables
	for _, c := range changes {
		s, problems, ok := t.convert(c)
		at, had := t.Index(c.name.namespace, c.name.name)
		news = news || had != ok || ok && !reflect.DeepEqual(*t.Services.At(at), s) ||
			!slices.Equal(problems, t.problems[c.name])
		stay = stay && had == ok
		if had || ok {
			edits = append(edits, edit{s, at, had, ok})
		}
		if delete(t.problems, c.name); len(problems) > 0 {
			t.problems[c.name] = problems
		}
	}
	switch {
	case !news:
		return false
	case stay:
		t.Table = t.replaced(edits)
	default:
		t.Table = t.rewritten(edits)
	}
	return true
}

// replaced returns the next table where that has the same services. It knows what changed, so that nothing walks over
// all services to find the few.
func (t *table) replaced(edits []edit) sources.Table {
	var delta sources.Delta
	indexes := make([]int, len(edits))
	for n, e := range edits {
		indexes[n] = e.at
		delta.Changes = append(delta.Changes, differing(*t.Services.At(e.at), e.service, e.at)...)
	}
	next := 0
	now := sources.Table{Services: t.Services.With(indexes, func(int) sources.Service {
		next++
		return edits[next-1].service
	})}
	return now.After(t.Table, delta)
}

// rewritten returns the next table where services come or go.
func (t *table) rewritten(edits []edit) sources.Table {
	next, from := make([]sources.Service, 0, t.Services.Len()+len(edits)), 0
	stay := func(until int) {
		for ; from < until; from++ {
			next = append(next, *t.Services.At(from))
		}
	}
	for _, e := range edits {
		if stay(e.at); e.had {
			from++
		}
		if e.stays {
			next = append(next, e.service)
		}
	}
	stay(t.Services.Len())
	return sources.Table{Services: sources.ServicesOf(next...)}
}

// differing returns what differs between two services of one name that have the same index in their tables. Their
// origins are equal.
func differing(was, is sources.Service, at int) []sources.Change {
	changes := sources.Compare(sources.Table{Services: sources.ServicesOf(was)},
		sources.Table{Services: sources.ServicesOf(is)}).Changes
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
	sources.SortFunc(all, func(a, b sources.Problem) int {
		return name{a.Service, a.Message}.compare(name{b.Service, b.Message})
	})
	return all
}
