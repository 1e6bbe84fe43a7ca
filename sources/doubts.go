package sources

import (
	"fmt"
	"slices"
)

// Doubts returns problems of services that are served: they are probably not as they were meant, or this node
// prevents a part of them. They are in order of file and line, at most maxDoubts per file. Services without a
// file, which an API server accepted as they are, have none but for values with leading zeros.
func Doubts(host HostFacts, t Table) []Problem {
	j := &judgement{host: host}
	for i := range t.Services.Len() {
		j.service(t.Services.At(i))
	}
	j.onlyHere(t)
	j.marks(t)
	j.bound(t)
	j.unmasqueraded(t)
	j.tunnels(t)
	j.lists(t)
	return few(j.doubts)
}

// doubts are the Doubts of the tables that a Merger makes. Only services that changed are checked again, or all of them
// if the facts changed.
type doubts struct {
	host HostFacts
	of   map[[2]string][]Problem // by namespace and name
	all  []Problem               // about services together
	list []Problem
}

// update returns the doubts about a table. They omit those that depend on the node's addresses, gateways and programs:
// Merge reports what it withholds for these.
func (d *doubts) update(host HostFacts, t Table, delta Delta) []Problem {
	host.Addrs, host.Gateways, host.Own, host.Listeners, host.Serving = nil, nil, nil, nil, nil
	together := true
	switch {
	case d.of == nil || delta.Moved || !host.equal(&d.host):
		d.of = map[[2]string][]Problem{}
		for i := range t.Services.Len() {
			d.check(host, t.Services.At(i))
		}
	case len(delta.Changes) == 0 && !delta.Shifted && !delta.Lists:
		return d.list
	default:
		together = d.concernsAll(host, t, delta)
		if delta.Shifted { // their doubts name another line
			for name := range d.of {
				i, ok := t.Index(name[0], name[1])
				d.again(host, t, name, i, ok)
			}
		}
		for _, c := range delta.Changes {
			d.again(host, t, [2]string{c.Namespace, c.Name}, c.Is, c.Is >= 0)
		}
	}
	d.host = host
	if together {
		j := &judgement{host: host}
		j.unmasqueraded(t)
		j.tunnels(t)
		j.lists(t)
		d.all = j.doubts
	}
	doubts := slices.Clone(d.all)
	for _, problems := range d.of {
		doubts = append(doubts, problems...)
	}
	d.list = few(doubts)
	return d.list
}

// concernsAll reports whether a change may change the doubts about services together. Of endpoints these look only
// at the families of those that are reached by a tunnel.
func (d *doubts) concernsAll(host HostFacts, t Table, delta Delta) bool {
	j := &judgement{host: host}
	more := delta.Shifted || delta.Lists || !delta.OnlyEndpoints()
	return more || slices.ContainsFunc(delta.Changes, func(c Change) bool {
		return j.overhead(t.Services.At(c.Is)) > 0
	})
}

// again checks a service that may have changed, if it is still there, at an index.
func (d *doubts) again(host HostFacts, t Table, name [2]string, i int, there bool) {
	delete(d.of, name)
	if there {
		d.check(host, t.Services.At(i))
	}
}

func (d *doubts) check(host HostFacts, s *Service) {
	j := &judgement{host: host}
	if j.service(s); len(j.doubts) > 0 {
		d.of[[2]string{s.Namespace, s.Name}] = j.doubts
	}
}

// maxDoubts is how many doubts about one file are reported.
const maxDoubts = 100

// few sorts problems and cuts those of each file to maxDoubts.
func few(problems []Problem) []Problem {
	SortProblems(problems)
	kept, n := problems[:0], 0
	for i, p := range problems {
		if n++; i == 0 || p.Origin.File != problems[i-1].Origin.File {
			n = 1
		}
		if n == maxDoubts+1 {
			p = Problem{Origin: p.Origin, Message: fmt.Sprintf("more than %d problems: correct these first", maxDoubts)}
		}
		if n <= maxDoubts+1 {
			kept = append(kept, p)
		}
	}
	return kept
}
