package status

import "slices"

// Verdict says how well services are served. Its number is the exit code of `svcproxy status`.
type Verdict int

// The verdicts.
const (
	Well     Verdict = 0
	Degraded Verdict = 7 // something is wrong, or a service is served only in part
	Empty    Verdict = 8 // a service has no backends, and nothing else is wrong
)

// Verdict judges the services. With the name of a service, only the state of that service counts.
func (st *Status) Verdict(service string) Verdict {
	list, degraded := st.Services, len(st.Problems) > 0
	if service != "" {
		list, degraded = st.named(service), false
	}
	verdict := Well
	for i := range list {
		degraded = degraded || len(list[i].Withheld) > 0
		switch list[i].State.Verdict() {
		case Degraded:
			degraded = true
		case Empty:
			verdict = Empty
		}
	}
	if degraded {
		return Degraded
	}
	return verdict
}

// AnyDown reports whether an endpoint is down by its checks; with the name of a service, one of that service.
func (st *Status) AnyDown(service string) bool {
	list := st.Services
	if service != "" {
		list = st.named(service)
	}
	return slices.ContainsFunc(list, func(s Service) bool { return s.Health != nil && s.Health.Down > 0 })
}

// NoServiceError names a service that does not exist.
type NoServiceError struct{ Name string }

func (e *NoServiceError) Error() string { return "no service " + e.Name }

// Exit is the exit code of a command that ends with the error, and the next step.
func (e *NoServiceError) Exit() (code int, hint string) { return 1, "svcproxy status lists all" }
