package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Options are for Start. The functions are called from one goroutine at a time.
type Options struct {
	Flags *Flags
	Log   *slog.Logger
	// Fits refuses a valid configuration that this node cannot run; nil takes all.
	Fits func(Config) error
	// Read is called after each reading but the first, with nil if it was
	// accepted. It may be nil.
	Read func(refused error)
	// Keeper repeats the writing of the last good content that failed; nil: nothing does.
	Keeper *statefile.Keeper
	// Unwatched is told what cannot be watched, as by file.Options. It may be nil.
	Unwatched func(what string, err error)
	// Changed is called when the active configuration has changed.
	Changed func(was, now *Setup)
}

// Current is the active configuration of a running svcproxy. It follows the
// file, adopts or refuses each change as a whole, and keeps the last good content
// for a start at which the file is broken. What a change does to the rest of the
// process is up to Options.Changed.
type Current struct {
	o      Options
	static *Static
	now    atomic.Pointer[Setup]

	// reading is held over a reading with all that follows from it. It may wait for disks.
	reading sync.Mutex
	wake    chan struct{} // wakes Follow when pause is new

	// mu is never held while something waits: Standing answers at once. Only the holder of reading changes what it guards.
	mu      sync.Mutex
	refused *sources.RejectedError // why the file is refused; nil if it is active
	since   time.Time              // of refused
	kept    []Kept
	pause   time.Duration // until the file is read again, because it could not be for a reason that may pass; 0 = none
}

// Standing is the state of the file.
type Standing struct {
	Refused error     // why it is refused; nil if it is active
	Since   time.Time // of Refused
	Kept    []Kept    // keys that wait for a restart
}

// Standing returns the state of the file.
func (c *Current) Standing() Standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Standing{c.rejected(), c.since, c.kept}
}

// Start reads the configuration. If the file is refused, Start takes the last
// good content, and Announce logs that. Without one it returns the error.
func Start(o Options) (*Current, error) {
	c := &Current{o: o, wake: make(chan struct{}, 1)}
	s, err := Load(o.Flags)
	c.retry(err)
	if err == nil {
		err = Emptied(s)
	}
	if err != nil {
		now := s.Warnings
		if s, err = c.fallBack(s, err); err != nil {
			c.warn(now)
			return nil, err
		}
	}
	c.now.Store(&s)
	c.static = NewStatic(s.Static, c.rejected())
	return c, nil
}

// fallBack returns the last good configuration in place of a refused one.
func (c *Current) fallBack(s Setup, why error) (Setup, error) {
	data, at, ok, err := s.lastGood().Get(s.File)
	if err != nil {
		c.o.Log.Warn("the last good configuration cannot be used", "err", err)
	}
	if !ok {
		return s, why
	}
	loaded, err := Parse(s.File, data, c.o.Flags)
	last, err := resolve(loaded, err)
	if err != nil {
		return s, why // the flags are wrong, or another version wrote the content
	}
	c.refused, c.since = rejection(s.File, why), time.Now()
	c.refused.Stale = []sources.StaleFile{{Path: s.File, Good: at}}
	return last, nil
}

// Announce logs the warnings of the start. Call it when the log has the format
// that the configuration asks for.
func (c *Current) Announce() {
	c.warn(c.Now().Warnings)
	if c.refused != nil {
		c.o.Log.Error("the configuration is refused: the last good one is used", "of", c.refused.Stale[0].Good, "err",
			c.refused)
	}
}

// Now is the active setup. It never changes; a reload replaces it.
func (c *Current) Now() *Setup { return c.now.Load() }

// Source emits the services of the active configuration. Its error is why the
// file is refused.
func (c *Current) Source() sources.Source { return c.static }

// rejected is c.refused as an error: nil, and not a nil pointer, if there is none.
func (c *Current) rejected() error {
	if c.refused == nil {
		return nil
	}
	return c.refused
}

// Reload reads the configuration again and makes all of it active, or none: the
// error says why not. kept lists the keys that only a restart can change.
func (c *Current) Reload() (kept []Kept, err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.o.Read != nil {
		defer func() { c.o.Read(err) }()
	}
	was := c.Now()
	next, err := Load(c.o.Flags)
	c.retry(err)
	if err == nil {
		err = c.fits(next, was)
	}
	if err != nil {
		c.refuse(next.File, err, was)
		return nil, c.refused
	}
	now := next
	now.Config, kept = was.Config.Adopt(next.Config)
	refused := c.refused
	c.accept(kept)
	if refused == nil && next.File == was.File && bytes.Equal(next.Data, was.Data) {
		return kept, nil
	}
	if refused != nil || !sources.Compare(was.Static, now.Static).Empty() {
		c.static.Set(now.Static, nil)
	}
	c.say(was.Config.Changes(now.Config), kept, now.Warnings)
	c.now.Store(&now)
	c.o.Changed(was, &now)
	c.Keep()
	return kept, nil
}

// Emitted waits until Source has emitted the services of the active
// configuration. The error is ctx's.
func (c *Current) Emitted(ctx context.Context) error { return c.static.Emitted(ctx) }

// accept notes that the file is valid.
func (c *Current) accept(kept []Kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused, c.kept = nil, kept
}

// refuse keeps the active configuration and notes why the file is refused.
func (c *Current) refuse(name string, why error, was *Setup) {
	next, before := rejection(name, why), c.refused
	c.mu.Lock()
	if before == nil {
		c.since = time.Now()
	} else {
		next.Stale = before.Stale
	}
	c.refused = next
	c.mu.Unlock()
	if before == nil || !slices.Equal(before.Problems, next.Problems) {
		c.static.Set(was.Static, next)
	}
}

// retry notes when to read a file again that could not be read: soon, if the reason may pass without an event.
func (c *Current) retry(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || !file.Passing(err) {
		c.pause = 0
		return
	}
	c.pause = file.RetryAfter(c.pause)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// untilNext is the time until the file is read again without an event.
func (c *Current) untilNext() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	period := c.Now().Config.ConfigSyncPeriod
	if c.pause > 0 {
		return min(c.pause, period)
	}
	return period
}

// fits refuses a valid configuration that must not replace the active one.
func (c *Current) fits(next Setup, was *Setup) error {
	if next.File == "" && was.File != "" {
		return fmt.Errorf("%s: is not there any more", was.File)
	}
	if len(was.Data) > 0 && next.File != "" && len(next.Data) == 0 {
		return errEmptied(next.File)
	}
	if c.o.Fits == nil {
		return nil
	}
	return c.o.Fits(next.Config)
}

func (c *Current) say(changes []Change, kept []Kept, warnings []string) {
	c.warn(warnings)
	for _, change := range changes {
		c.o.Log.Info("configured", "key", change.Key, "from", change.From, "to", change.To)
	}
	for _, k := range kept {
		c.o.Log.Warn("needs a restart", "key", k.Key, "running", k.Running, "wanted", k.Wanted)
	}
}

func (c *Current) warn(lines []string) {
	for _, line := range lines {
		c.o.Log.Warn(line)
	}
}

// Keep stores the active content for a start at which the file is broken. It does nothing while the file is
// refused. The Keeper tries again what a full or read-only disk refuses.
func (c *Current) Keep() { _ = c.o.Keeper.Do("last-good", c.keep) } // the Keeper says the error

func (c *Current) keep() error {
	s := c.Now()
	if s.File == "" || c.Standing().Refused != nil {
		return nil
	}
	if err := s.lastGood().Put(s.File, s.Data, time.Now()); err != nil {
		return fmt.Errorf("a broken file would stop the next start: %w", err)
	}
	return nil
}

// Follow reloads when the file changes, until ctx ends. It also reloads every
// configSyncPeriod, in case an event was lost, and sooner if the file could not be
// read for a reason that may pass.
func (c *Current) Follow(ctx context.Context) {
	go func() {
		s := c.Now()
		path := c.o.Flags.Path()
		if err := file.Notify(ctx, path, s.Config.File.Debounce, c.o.Unwatched, c.changed); err != nil {
			c.o.Log.Warn("the configuration file is not watched: changes are noticed after configSyncPeriod", "err", err)
		}
	}()
	c.poll(ctx)
}

// changed reloads. Source reports a refusal.
func (c *Current) changed() { _, _ = c.Reload() }

// poll reloads what no event tells of.
func (c *Current) poll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake: // the next time is another one
		case <-time.After(c.untilNext()):
			c.changed()
		}
	}
}

// Emptied refuses a file of 0 bytes whose last good content was longer: an editor
// or a full disk has truncated it.
func Emptied(s Setup) error {
	if s.File == "" || len(s.Data) > 0 {
		return nil
	}
	if data, _, _, _ := s.lastGood().Get(s.File); len(data) == 0 {
		return nil
	}
	return errEmptied(s.File)
}

func errEmptied(name string) error {
	return fmt.Errorf("%s: is empty and had a configuration: to have the defaults, leave a comment in it", name)
}

// rejection is err as sources report the refusal of a file.
func rejection(name string, err error) *sources.RejectedError {
	var rejected *sources.RejectedError
	if errors.As(err, &rejected) {
		return rejected
	}
	rejected = &sources.RejectedError{Files: []string{name}, Problems: []sources.Problem{{Message: err.Error()}}}
	var invalid *Error
	if errors.As(err, &invalid) {
		rejected.Problems = slices.Clone(invalid.Problems)
	}
	for i := range rejected.Problems {
		rejected.Problems[i].Origin.Source = sources.Static
	}
	return rejected
}
