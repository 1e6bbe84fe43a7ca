package convert

import (
	"errors"
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// certified returns only the services that a services file can have. The others become notes.
func certified(r Result) Result {
	good := r.Services[:0]
	for _, s := range r.Services {
		err := refusal(&s)
		if err != nil && s.HealthCheck != nil {
			without := s
			without.HealthCheck = nil
			without.Endpoints = slices.Clone(s.Endpoints)
			for i := range without.Endpoints {
				without.Endpoints[i].Unchecked = false
			}
			if refusal(&without) == nil {
				r.Notes = append(r.Notes, Note{Origin: s.Origin, Service: s.FullName(), Message: fmt.Sprintf("its health check: %v", err), Changes: true})
				s, err = without, nil
			}
		}
		if err != nil {
			r.Notes = append(r.Notes, Note{Origin: s.Origin, Message: err.Error(), Changes: true})
			continue
		}
		good = append(good, s)
	}
	r.Services = good
	r.uncontested()
	r.sortNotes()
	return r
}

// uncontested drops services that ask for what another one has.
func (r *Result) uncontested() {
	t := sources.Table{Services: sources.ServicesOf(slices.Clone(r.Services)...)}
	t.Sort()
	for _, p := range sources.Validate(t) {
		drop := func(s sources.Service) bool { return s.FullName() == p.Service }
		if slices.ContainsFunc(r.Services, drop) {
			r.Services = slices.DeleteFunc(r.Services, drop)
			r.Notes = append(r.Notes, Note{Origin: p.Origin, Message: p.Message, Changes: true})
		}
	}
}

// refusal is why a services file cannot have a service, or nil.
func refusal(s *sources.Service) error {
	t, _, problems := file.Decode("", []byte(file.Encode(s, file.EdgeWords)))
	if len(problems) == 0 {
		problems = sources.Validate(t)
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(problems[0].Message)
}
