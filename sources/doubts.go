package sources

import (
	"fmt"
	"reflect"
)

// Doubts returns problems of services that are served: they are probably not as they were meant, or this node prevents a
// part of them. They are in order of file and line, at most maxDoubts per file. Services without a file, which an API
// server accepted as they are, have none.
func Doubts(host HostFacts, t Table) []Problem {
	v := &validation{host: host}
	for i := range t.Services {
		v.doubt(&t.Services[i])
	}
	v.onlyHere(t)
	v.unmasqueraded(t)
	return few(v.warnings)
}

// doubts are the Doubts of the tables that a Merger makes. Only services that changed are checked again, or all of them
// if the facts changed.
type doubts struct {
	host HostFacts
	of   map[[2]string][]Problem // by namespace and name
	list []Problem
}

// update returns the doubts about a table. They omit those that depend on the node's addresses and gateways: Merge
// reports what it withholds for these.
func (d *doubts) update(host HostFacts, t Table, delta Delta) []Problem {
	host.Addrs, host.Gateways = nil, nil
	switch {
	case d.of == nil || delta.Moved || !reflect.DeepEqual(host, d.host):
		d.of = map[[2]string][]Problem{}
		for i := range t.Services {
			d.check(host, &t.Services[i])
		}
	case len(delta.Changes) == 0 && !delta.Shifted:
		return d.list
	default:
		if delta.Shifted { // their doubts name another line
			for name := range d.of {
				d.again(host, t, name)
			}
		}
		for _, c := range delta.Changes {
			d.again(host, t, [2]string{c.Namespace, c.Name})
		}
	}
	d.host = host
	v := &validation{host: host}
	for _, problems := range d.of {
		v.warnings = append(v.warnings, problems...)
	}
	v.unmasqueraded(t)
	d.list = few(v.warnings)
	return d.list
}

// again checks a service that may have changed, or is gone.
func (d *doubts) again(host HostFacts, t Table, name [2]string) {
	delete(d.of, name)
	if i, ok := t.index(name[0], name[1]); ok {
		d.check(host, &t.Services[i])
	}
}

func (d *doubts) check(host HostFacts, s *Service) {
	v := &validation{host: host}
	if v.doubt(s); len(v.warnings) > 0 {
		d.of[[2]string{s.Namespace, s.Name}] = v.warnings
	}
}

// doubt applies the rules that depend on one service alone.
func (v *validation) doubt(s *Service) {
	if s.Origin.File != "" {
		v.check(s)
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
			p = Problem{Origin: p.Origin, Message: fmt.Sprintf("more than %d problems: mend these first", maxDoubts)}
		}
		if n <= maxDoubts+1 {
			kept = append(kept, p)
		}
	}
	return kept
}

// onlyHere warns of contests that exist on this node alone, because an external IP is an endpoint and not an address of
// the node.
func (v *validation) onlyHere(t Table) {
	if len(v.host.Addrs) == 0 {
		return
	}
	anywhere := map[Withheld]bool{}
	for _, s := range judge(HostFacts{}, nil, t).services {
		for _, w := range s.withheld {
			anywhere[w] = true
		}
	}
	for _, s := range judge(v.host, nil, t).services {
		for _, w := range s.withheld {
			if !anywhere[w] {
				v.warn(s.Service, "%s", w.Why)
			}
		}
	}
}

// unmasqueraded warns once, not for each service, that replies to clients of cluster IPs must pass this node.
func (v *validation) unmasqueraded(t Table) {
	if !v.host.Unmasqueraded {
		return
	}
	var first *Service
	n := 0
	for i := range t.Services {
		s := &t.Services[i]
		if len(s.ClusterIPs) == 0 || !s.Type.Serves() || s.Origin.File == "" {
			continue
		}
		if n++; first == nil || s.Origin.compare(first.Origin) < 0 {
			first = s
		}
	}
	if n == 0 {
		return
	}
	others := ""
	if n > 1 {
		others = fmt.Sprintf(" (here and in %d more)", n-1)
	}
	v.warn(first, "cluster IP without clusterCIDR or masqueradeAll%s: endpoints see the client's address, so their replies must be routed back through this node", others)
}
