package checker

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// kept is a file of stateDir on its way to the disk. The checker's lock is for it.
type kept struct {
	name string
	lost string    // what a restart forgets without it
	due  time.Time // when it is to be written; zero = it is up to date
	// content returns what to write, nil if that cannot be known yet. It runs with the lock, and formats nothing.
	content func() json.Marshaler
}

// write has the file written by then.
func (k *kept) write(by time.Time) {
	if k.due.IsZero() || by.Before(k.due) {
		k.due = by
	}
}

// keepFiles writes the files that are due, until ctx ends and once more then.
func (c *Checker) keepFiles(ctx context.Context, files ...*kept) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for ended := false; !ended; {
		var now time.Time
		select {
		case <-ctx.Done():
			now, ended = time.Now().Add(sharePeriod+sincePeriod), true // all are due by then
		case now = <-ticks.C:
		}
		for _, k := range files {
			c.save(k, now)
		}
	}
}

// save writes a file if it is due. A disk may block it, so it does not hold the lock meanwhile.
func (c *Checker) save(k *kept, now time.Time) {
	c.mu.Lock()
	var content json.Marshaler
	if !k.due.IsZero() && !now.Before(k.due) {
		content = k.content()
	}
	if content == nil {
		c.mu.Unlock()
		return
	}
	k.due = time.Time{}
	c.mu.Unlock()
	_ = c.Keeper.Do(k.name, func() error { // the Keeper says the error
		data, err := content.MarshalJSON()
		if err == nil {
			err = statefile.Write(filepath.Join(c.StateDir, k.name), append(data, '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("a restart forgets %s: %w", k.lost, err)
		}
		return nil
	})
}
