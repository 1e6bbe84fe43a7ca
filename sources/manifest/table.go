package manifest

import (
	"fmt"

	"github.com/svcproxy/svcproxy/sources"
)

// Table makes a table of objects that were read together. node is as in Convert. Problems are about what was left
// out: services that cannot be served or are given twice, endpoints, and slices without a service.
func Table(o Objects, node string) (sources.Table, []sources.Problem) {
	type key struct{ namespace, name string }
	parts := map[key][]*EndpointSlice{}
	for i := range o.Slices {
		if e := &o.Slices[i]; e.Ours(o.Proxy) {
			k := key{e.Metadata.Namespace, e.Metadata.Labels.ServiceName}
			parts[k] = append(parts[k], e)
		}
	}
	var all []sources.Service
	var problems []sources.Problem
	seen := map[key]sources.Origin{}
	for _, s := range o.Services {
		k := key{s.Metadata.Namespace, s.Metadata.Name}
		if first, twice := seen[k]; twice {
			problems = append(problems, problem(s.Metadata, k.namespace+"/"+k.name, "left out: it is there twice, first at %s",
				first))
			continue
		}
		seen[k] = s.Metadata.Origin
		if !s.Ours(o.Proxy) {
			continue
		}
		service, left, ok := Convert(s, parts[k], node)
		if problems = append(problems, left...); ok {
			all = append(all, service)
		}
	}
	for _, e := range o.Slices {
		k := key{e.Metadata.Namespace, e.Metadata.Labels.ServiceName}
		if _, known := seen[k]; e.Ours(o.Proxy) && !known {
			problems = append(problems, problem(e.Metadata, "", "EndpointSlice %s left out: there is no Service %s/%s",
				e.Metadata.Name, k.namespace, k.name))
		}
	}
	t := sources.Table{Services: sources.ServicesOf(all...)}
	t.Sort()
	sources.SortProblems(problems)
	return t, problems
}

func problem(m Metadata, service, format string, args ...any) sources.Problem {
	return sources.Problem{Service: service, Origin: m.Origin, Message: fmt.Sprintf(format, args...)}
}
