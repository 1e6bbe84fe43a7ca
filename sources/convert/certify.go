package convert

import (
	"errors"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// certified returns only the services that a services file can have. The others become notes. Mostly all of them can,
// which one reading shows.
func certified(r Result) Result {
	var all strings.Builder
	for i := range r.Services {
		all.WriteString(file.Encode(&r.Services[i], file.EdgeWords))
	}
	if refused(all.String()) != nil {
		good := r.Services[:0]
		for _, s := range r.Services {
			if err := r.mend(&s); err != nil {
				r.Notes = append(r.Notes, Note{Origin: s.Origin, Message: message("%v", err), Danger: Feature})
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

// mend makes a service whose check is refused one with the node's times, or with a check that only connects, or else
// without a check. It returns why the service is refused all the same.
func (r *Result) mend(s *sources.Service) error {
	why := refusal(s)
	if why == nil || s.HealthCheck == nil {
		return why
	}
	usual, connects := *s.HealthCheck, *s.HealthCheck
	usual.Unset = sources.DefaultHealthCheck().Unset &^ (sources.HealthOnDown | sources.HealthOnAllDown)
	usual = usual.OnNode(sources.DefaultHealthCheck())
	usual.Probe.Timeout = sources.DefaultHealthCheck().Probe.Timeout
	connects.Probe = onlyConnects(s.HealthCheck.Probe)
	for _, try := range []struct {
		check *sources.HealthCheck
		what  string
	}{
		{&usual, "its times and counts are the node's defaults"},
		{&connects, "it only connects"},
		{nil, "the endpoints are not checked"},
	} {
		trial := *s
		if trial.HealthCheck = try.check; try.check == nil {
			trial.Endpoints = slices.Clone(s.Endpoints)
			for i := range trial.Endpoints {
				trial.Endpoints[i].Unchecked = false
			}
			trial.Names = slices.Clone(s.Names)
			for i := range trial.Names {
				trial.Names[i].Unchecked = false
			}
		}
		if why = refusal(&trial); why == nil {
			*s = trial
			r.Notes = append(r.Notes, Note{
				Origin: s.Origin, Service: s.FullName(), Danger: Feature,
				Message: "its health check: a services file cannot have it so; " + try.what,
			})
			return nil
		}
	}
	return why
}

// uncontested drops services that ask for what another one has.
func (r *Result) uncontested() {
	t := sources.Table{Services: sources.ServicesOf(slices.Clone(r.Services)...)}
	t.Sort()
	lost := map[string]bool{}
	for _, p := range sources.Validate(t) {
		if !lost[p.Service] {
			lost[p.Service] = true
			r.Notes = append(r.Notes, Note{Origin: p.Origin, Message: p.Message, Danger: Feature})
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
