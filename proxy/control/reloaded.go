package control

import (
	"errors"
	"slices"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// Reloaded is what became of reading the files again. Its JSON form is stable.
type Reloaded struct {
	// Rejected says what is wrong, one line each, "file:line: ..." where that is
	// known; none when everything applies.
	Rejected []string `json:"rejected"`
	// Kept are the files that go on with their last good content.
	Kept []string `json:"kept"`
	// Restart are the changes in the configuration that wait for a restart.
	Restart []string `json:"restart"`
	// Failed says what of the rest is not programmed, one line each.
	Failed []string `json:"failed"`
	// Conflicts are virtual servers that another program has made, and what of one
	// service another service has already.
	Conflicts []string `json:"conflicts"`
	// Warnings say what may keep traffic away although all is programmed.
	Warnings []string `json:"warnings"`
}

// Nothing is a Reloaded without anything to say: its lists are empty, not null.
func Nothing() Reloaded {
	return Reloaded{
		Rejected: []string{}, Kept: []string{}, Restart: []string{}, Failed: []string{}, Conflicts: []string{}, Warnings: []string{},
	}
}

// Err is what is not served as it was written, nil if everything is: of
// cli.Config if something was rejected, else of cli.Failed if something is not
// programmed, else of cli.Degraded.
func (r Reloaded) Err() error {
	var errs []error
	for _, line := range slices.Concat(r.Rejected, r.Failed, r.Conflicts) {
		errs = append(errs, errors.New(line))
	}
	if len(errs) == 0 {
		return nil
	}
	e := &cli.Error{Code: cli.Config, Err: errors.Join(errs...), Hint: "what was good goes on being served"}
	switch {
	case len(r.Rejected) > 0:
	case len(r.Failed) > 0:
		e.Code, e.Hint = cli.Failed, "svcproxy goes on trying: svcproxy status"
	default:
		e.Code, e.Hint = cli.Degraded, "the rest is served: svcproxy status"
	}
	return e
}
