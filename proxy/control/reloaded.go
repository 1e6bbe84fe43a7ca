package control

import (
	"errors"

	"github.com/svcproxy/svcproxy/proxy/exit"
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
}

// Err is what was rejected, as an error of exit.Config; nil if nothing was.
func (r Reloaded) Err() error {
	if len(r.Rejected) == 0 {
		return nil
	}
	errs := make([]error, len(r.Rejected))
	for i, line := range r.Rejected {
		errs[i] = errors.New(line)
	}
	return &exit.Error{Code: exit.Config, Err: errors.Join(errs...), Hint: "what was good goes on being served"}
}
