// Package current is the main configuration of a running svcproxy: read,
// followed, adopted as a whole or refused as a whole, and kept for a start at
// which the file is broken.
//
// It decides what holds and says what changed; what a change does to the parts
// of the process is up to who is told of it. It knows no kernel.
package current

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/static"
)

// Options say where a configuration comes from and who has a say in it. All
// functions are called from one goroutine at a time.
type Options struct {
	Flags *config.Flags
	Facts Facts
	Log   *slog.Logger
	// Fits refuses what is valid and cannot be had on this node; nil takes all.
	Fits func(config.Config) error
	// Read is told what became of each reading after the first, nil when it was
	// accepted; nil tells nobody.
	Read func(refused error)
	// Changed is told when another configuration holds than before.
	Changed func(was, now *Setup)
}

// Current is the configuration that holds, and its services as a source.
type Current struct {
	o      Options
	static *static.Source
	now    atomic.Pointer[Setup]

	mu      sync.Mutex
	refused *sources.RejectedError // what the file says now, if that does not hold
	since   time.Time              // of refused
	kept    []config.Kept
}

// Standing is how the file stands as it is now.
type Standing struct {
	Refused error         // why it does not hold; nil if it does
	Since   time.Time     // of Refused
	Kept    []config.Kept // what of it waits for a restart
}

// Standing says how the file stands.
func (c *Current) Standing() Standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Standing{c.rejected(), c.since, c.kept}
}

// Start reads the configuration. Where the file is refused, the last one that
// was good is taken, which Announce says; without one that is the error.
func Start(o Options) (*Current, error) {
	c := &Current{o: o}
	s, err := Load(o.Flags, o.Facts)
	if err == nil {
		err = emptied(s)
	}
	if err != nil {
		now := s.Warnings
		if s, err = c.fallBack(s, err); err != nil {
			c.warn(now)
			return nil, err
		}
	}
	c.now.Store(&s)
	c.static = static.New(s.Static, c.rejected())
	return c, nil
}

// fallBack gives the last good configuration instead of one that is refused.
func (c *Current) fallBack(s Setup, why error) (Setup, error) {
	data, at, ok, err := s.lastGood().Get(s.File)
	if err != nil {
		c.o.Log.Warn("the last good configuration cannot be used", "err", err)
	}
	if !ok {
		return s, why
	}
	loaded, err := config.Parse(s.File, data, c.o.Flags)
	last, err := resolve(loaded, err, c.o.Facts)
	if err != nil {
		return s, why // what is wrong is in the flags, or was right for another version
	}
	c.refused, c.since = rejection(s.File, why), time.Now()
	c.refused.Stale = []sources.StaleFile{{Path: s.File, Good: at}}
	return last, nil
}

// Announce logs what there is to say about the start, once the log has the form
// that the configuration wants.
func (c *Current) Announce() {
	c.warn(c.Now().Warnings)
	if c.refused != nil {
		c.o.Log.Error("the configuration is refused: the last good one goes on", "of", c.refused.Stale[0].Good, "err", c.refused)
	}
}

// Now is the setup that holds. It is not changed; another one takes its place.
func (c *Current) Now() *Setup { return c.now.Load() }

// Source has the services in the configuration, and as its error what is wrong
// with the file.
func (c *Current) Source() sources.Source { return c.static }

// rejected is c.refused as an error that is nil when nothing is.
func (c *Current) rejected() error {
	if c.refused == nil {
		return nil
	}
	return c.refused
}

// Reload reads the configuration again and makes it hold, all of it or nothing:
// the error says why not. What only a restart can change is in kept.
func (c *Current) Reload() (kept []config.Kept, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.o.Read != nil {
		defer func() { c.o.Read(err) }()
	}
	was := c.Now()
	next, err := Load(c.o.Flags, c.o.Facts)
	if err == nil {
		err = c.fits(next, was)
	}
	if err != nil {
		c.refuse(next.File, err, was)
		return nil, c.refused
	}
	now := next
	now.Config, kept = was.Config.Adopt(next.Config)
	c.kept = kept
	if c.refused == nil && next.File == was.File && bytes.Equal(next.Data, was.Data) {
		return kept, nil
	}
	if c.refused != nil || !reflect.DeepEqual(now.Static, was.Static) {
		c.static.Set(now.Static, nil)
	}
	c.refused = nil
	c.say(was.Config.Changes(now.Config), kept, now.Warnings)
	c.now.Store(&now)
	c.o.Changed(was, &now)
	c.Keep()
	return kept, nil
}

// Emitted waits until the services of the configuration that holds have been
// emitted by Source; the error is ctx's.
func (c *Current) Emitted(ctx context.Context) error { return c.static.Emitted(ctx) }

// refuse leaves everything as it was.
func (c *Current) refuse(name string, why error, was *Setup) {
	next := rejection(name, why)
	if c.refused == nil {
		c.since = time.Now()
	} else {
		next.Stale = c.refused.Stale
	}
	c.refused = next
	c.static.Set(was.Static, c.refused)
}

// fits refuses a configuration that is valid, but not in the place of this one.
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

func (c *Current) say(changes []config.Change, kept []config.Kept, warnings []string) {
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

// Keep writes down what holds, for a start at which the file is broken. What is
// refused is not kept, and a disk that is full or read-only is a warning.
func (c *Current) Keep() {
	s := c.Now()
	if s.File == "" || c.refused != nil {
		return
	}
	if err := s.lastGood().Put(s.File, s.Data, time.Now()); err != nil {
		c.o.Log.Warn("a broken configuration would stop the next start", "err", err)
	}
}

// Follow reloads whenever the file changes, and once in configSyncPeriod in case
// that was not noticed, until ctx ends.
func (c *Current) Follow(ctx context.Context) {
	changed := func() { _, _ = c.Reload() } // what is refused is the source's error, and said there
	go func() {
		s := c.Now()
		if err := file.Notify(ctx, c.o.Flags.Path(), s.Config.File.Debounce, c.o.Log, changed); err != nil {
			c.o.Log.Warn("changes of the configuration are noticed late", "err", err)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Now().Config.ConfigSyncPeriod):
			changed()
		}
	}
}

// emptied refuses a file of 0 bytes that had something in it when it was last
// good: an editor, or a full disk, has cut it.
func emptied(s Setup) error {
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

// rejection says of the main configuration what sources say of their files.
func rejection(name string, err error) *sources.RejectedError {
	var rejected *sources.RejectedError
	if errors.As(err, &rejected) {
		return rejected
	}
	rejected = &sources.RejectedError{Files: []string{name}}
	problem := func(file string, line int, message string) {
		origin := sources.Origin{Source: "static", File: file, Line: line}
		rejected.Problems = append(rejected.Problems, sources.Problem{Origin: origin, Message: message})
	}
	var invalid *config.Error
	if !errors.As(err, &invalid) {
		problem("", 0, err.Error())
		return rejected
	}
	for _, p := range invalid.Problems {
		problem(p.File, p.Line, p.Message)
	}
	return rejected
}
