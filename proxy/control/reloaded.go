package control

import (
	"errors"
	"slices"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// Reloaded is the result of a reload. Its JSON form is stable.
type Reloaded struct {
	// Rejected says what is wrong in the files, one line each, "file:line: ..." if
	// the place is known; empty if all files are valid.
	Rejected []string `json:"rejected"`
	// Kept are the files whose last good content stays in use.
	Kept []string `json:"kept"`
	// Restart are the changes in the configuration that need a restart.
	Restart []string `json:"restart"`
	// Failed says what could not be programmed, one line each.
	Failed []string `json:"failed"`
	// Conflicts are virtual servers that another program made, and parts of services
	// that another service already has.
	Conflicts []string `json:"conflicts"`
	// Warnings say what may keep traffic away although everything is programmed.
	Warnings []string `json:"warnings"`
}

// Nothing returns a Reloaded with empty lists. None is null.
func Nothing() Reloaded {
	return Reloaded{
		Rejected: []string{}, Kept: []string{}, Restart: []string{}, Failed: []string{}, Conflicts: []string{},
		Warnings: []string{},
	}
}

// Err is an error if something is not served as it was written. Its exit code is
// Config if a file was rejected, else Failed if something could not be programmed,
// else Degraded.
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
