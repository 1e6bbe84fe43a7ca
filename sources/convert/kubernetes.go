package convert

import (
	"errors"
	"reflect"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// readKubernetes reads Services and EndpointSlices.
func readKubernetes(f File) (Result, error) {
	objects, problems := manifest.Decode(f.Name, f.Data)
	if len(problems) > 0 {
		all := make([]error, len(problems))
		for i, p := range problems {
			all[i] = p
		}
		return Result{}, errors.Join(all...)
	}
	t, problems := manifest.Table(objects, "")
	var r Result
	for _, p := range problems {
		r.Notes = append(r.Notes, Note{Origin: p.Origin, Message: p.Message, Changes: true})
	}
	for _, s := range t.Services {
		again, _, _ := file.Decode("", []byte(file.Encode(&s)))
		if len(again.Services) == 1 && !reflect.DeepEqual(ports(s), ports(again.Services[0])) {
			r.Notes = append(r.Notes, Note{
				Origin: s.Origin, Service: s.FullName(), Changes: true,
				Message: "some endpoints serve only some of the ports: a services file has all endpoints serve all ports",
			})
		}
		r.Services = append(r.Services, s)
	}
	return certified(r), nil
}

// ports are the ports of each endpoint.
func ports(s sources.Service) [][]sources.EndpointPort {
	var all [][]sources.EndpointPort
	for _, e := range s.Endpoints {
		p := slices.Clone(e.Ports)
		slices.SortFunc(p, func(a, b sources.EndpointPort) int { return int(a.Port) - int(b.Port) })
		all = append(all, p)
	}
	return all
}
