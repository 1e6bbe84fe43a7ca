package checker

import (
	"context"
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

// since is the file on its way to the disk. The checker's lock is for it.
type since struct {
	before health.Since // of an earlier run, until the tables of all sources are there
	due    time.Time    // when the file is to be written; zero = it is up to date
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

// keepSince writes the file, until ctx ends and once more then.
func (c *Checker) keepSince(ctx context.Context) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			c.saveSince(time.Now().Add(sincePeriod))
			return
		case now := <-ticks.C:
			c.saveSince(now)
		}
	}
}

// saveSince writes the file if it is due, without the lock: a disk may block it.
func (c *Checker) saveSince(now time.Time) {
	c.mu.Lock()
	if c.since.due.IsZero() || now.Before(c.since.due) || c.since.before != nil {
		c.mu.Unlock()
		return
	}
	c.since.due = time.Time{}
	all := c.board.Since()
	c.mu.Unlock()
	_ = c.Keeper.Do(sinceFile, func() error { // the Keeper says the error
		data, err := json.Marshal(all)
		if err == nil {
			err = statefile.Write(filepath.Join(c.StateDir, sinceFile), append(data, '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("a restart forgets since when endpoints are up or down: %w", err)
		}
		return nil
	})
}
