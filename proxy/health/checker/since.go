package checker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/health"
)

const (
	// sinceFile has since when endpoints are up or down, and why, in stateDir. A restart counts on nothing of it.
	sinceFile = "since.json"
	// maxSinceFile bounds it, in bytes: 50,000 targets with long reasons.
	maxSinceFile = 32 << 20
	// sincePeriod is how long changes wait to be written; with 25,000 targets, of which some always change, the file
	// then takes 1 % of a processor.
	sincePeriod = 5 * time.Second
)

// since is the file. The checker's lock is for it.
type since struct {
	before health.Since // of an earlier run, until the tables of all sources are there
	kept
}

func (c *Checker) sinceContent() json.Marshaler {
	if c.since.before != nil {
		return nil
	}
	return c.board.Changes()
}

func readSince(stateDir string) (health.Since, error) {
	path := filepath.Join(stateDir, sinceFile)
	data, err := statefile.Read(path, maxSinceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all health.Since
	if err == nil {
		all, err = health.ParseSince(data, time.Now())
	}
	if err != nil {
		err = fmt.Errorf("since when endpoints were up or down before the restart is not known: %s: %w", path, err)
	}
	return all, err
}

// changed notes that the file is to be written, if an event is a change of a state. The lock is held.
func (s *since) changed(events []health.Event) {
	for i := range events {
		if k := events[i].Kind; s.due.IsZero() && (k == health.WentUp || k == health.WentDown || k == health.IsGone) {
			s.due = events[i].At.Add(sincePeriod)
		}
	}
}
