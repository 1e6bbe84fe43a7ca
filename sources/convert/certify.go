package convert

import (
	"errors"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// certified returns only the services that a services file can have. The others become notes. Mostly all of them can, which
// one reading shows.
func certified(r Result) Result {
	var all strings.Builder
	for i := range r.Services {
		all.WriteString(file.Encode(&r.Services[i], file.EdgeWords))
	}
	if refused(all.String()) != nil {
		good, known := r.Services[:0], map[sources.HealthCheck]mended{}
		for _, s := range r.Services {
			err := refusal(&s)
			if err != nil && s.HealthCheck != nil {
				err = r.mend(&s, known)
			}
			if err != nil {
				r.Notes = append(r.Notes, Note{Origin: s.Origin, Message: message("%v", err), Changes: true})
				continue
			}
			good = append(good, s)
		}
		r.Services = good
	}
	r.uncontested()
	r.sortNotes()
	return r
}

// mended is a check without the parts that a services file refuses; nil if it refuses all of it.
type mended struct {
	check *sources.HealthCheck
	notes []string
}

// mend leaves out what is refused of a service's check: the parts, or else the check. It returns why the service is refused
// without a check, too.
func (r *Result) mend(s *sources.Service, known map[sources.HealthCheck]mended) error {
	m, again := known[*s.HealthCheck]
	if trial := *s; again && m.check != nil {
		trial.HealthCheck = m.check
		again = refusal(&trial) == nil
	}
	if !again {
		m = mendCheck(s)
		known[*s.HealthCheck] = m
	}
	if s.HealthCheck = m.check; m.check == nil {
		s.Endpoints = slices.Clone(s.Endpoints)
		for i := range s.Endpoints {
			s.Endpoints[i].Unchecked = false
		}
	}
	if err := refusal(s); err != nil {
		return err
	}
	for _, n := range m.notes {
		r.Notes = append(r.Notes, Note{Origin: s.Origin, Service: s.FullName(), Message: n, Changes: true})
	}
	return nil
}

// mendCheck adds the parts of a check one by one to a check without any, as long as the service is accepted.
func mendCheck(s *sources.Service) (m mended) {
	of := partsOf(s.HealthCheck)
	refuses := func(c *sources.HealthCheck, without []part) bool {
		trial, own := *s, *c
		for i := range without {
			without[i].clear(&own)
		}
		trial.HealthCheck = &own
		trial.Endpoints = s.Endpoints[:min(len(s.Endpoints), 1)]
		return refusal(&trial) != nil
	}
	own := *s.HealthCheck
	why := refusal(s).Error()
	named := slices.IndexFunc(of, func(x part) bool { return strings.Contains(" "+why+" ", " "+x.name+" ") })
	if named >= 0 && !refuses(&own, of[named:named+1]) { // mostly the reason names the part
		note := of[named].left(&own)
		return mended{&own, []string{note}}
	}
	if refuses(&own, of) {
		return mended{notes: []string{message("its health check: %s", why)}}
	}
	for i := range of {
		if refuses(&own, of[i+1:]) {
			m.notes = append(m.notes, of[i].left(&own))
		}
	}
	m.check = &own
	return m
}

// left leaves out a part that a services file refuses, and returns a note.
func (x *part) left(c *sources.HealthCheck) string {
	return x.name + " of its health check: a services file cannot have it so; " + x.leaveOut(c)
}

// uncontested drops services that ask for what another one has.
func (r *Result) uncontested() {
	t := sources.Table{Services: sources.ServicesOf(slices.Clone(r.Services)...)}
	t.Sort()
	lost := map[string]bool{}
	for _, p := range sources.Validate(t) {
		if !lost[p.Service] {
			lost[p.Service] = true
			r.Notes = append(r.Notes, Note{Origin: p.Origin, Message: p.Message, Changes: true})
		}
	}
	r.Services = slices.DeleteFunc(r.Services, func(s sources.Service) bool { return lost[s.FullName()] })
}

// refusal is why a services file cannot have a service, or nil.
func refusal(s *sources.Service) error { return refused(file.Encode(s, file.EdgeWords)) }

// refused is the first problem of a services file, or nil.
func refused(text string) error {
	t, _, problems := file.Decode("", []byte(text))
	if len(problems) == 0 {
		problems = sources.Validate(t)
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(problems[0].Message)
}
