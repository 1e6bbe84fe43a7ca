package file

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadAgain: a file that could not be read for a reason that may pass is read again soon, although no event comes.
func TestReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, dir: t.TempDir()}
		r.must(os.Symlink("/proc/self/mem", r.path("s.toml"))) // EIO
		r.write("t.toml", "t")
		r.run(Options{Paths: []string{"s.toml", "t.toml"}})
		r.want("input/output error", "t")
		r.must(os.Remove(r.path("s.toml")))
		r.write("s.toml", "a")
		begin := time.Now()
		r.want("", "a", "t")
		if after := time.Since(begin); after != 2*time.Second {
			t.Errorf("after %v", after)
		}
		r.stop()
	})
}

// TestRetries: the pauses grow, and end with the reason, also if the file goes meanwhile.
func TestRetries(t *testing.T) {
	const path = "/etc/s.toml"
	now := time.Now()
	g := running()
	broken := look{id: identity{ino: 1}, err: &os.PathError{Err: syscall.EIO}}
	g.take(path, broken, false, now)
	g.take(path, broken, false, now.Add(time.Second)) // an event between two tries
	for _, seconds := range []int{2, 4, 8, 16, 32, 60, 60} {
		pause := time.Duration(seconds) * time.Second
		if next := g.next().Sub(now); next != pause || g.due(now) != nil {
			t.Errorf("pause %v, want %v; due %q", next, pause, g.due(now))
		}
		now = now.Add(pause)
		if due := g.due(now); !slices.Equal(due, []string{path}) {
			t.Errorf("due after %v: %q", pause, due)
		}
		if g.take(path, broken, false, now) {
			t.Error("the same problem is news")
		}
	}
	for what, over := range map[string]look{"gone": {absent: true}, "named": {absent: true, named: true}, "hidden": {hidden: true}} {
		g.take(path, broken, false, now)
		if g.take(path, over, true, now); !g.next().IsZero() {
			t.Errorf("%s: next at %v", what, g.next())
		}
	}
}

// TestListedAgain: so is a directory.
func TestListedAgain(t *testing.T) {
	g := running()
	now := time.Now()
	l := &listing{}
	l.unlist("/etc/s.d", fmt.Errorf("open: %w", syscall.EMFILE))
	g.directories(l, now)
	if g.due(now) != nil || g.next() != now.Add(2*time.Second) || g.due(g.next()) == nil {
		t.Error(g.next())
	}
	now = g.next()
	g.directories(l, now)
	if g.next() != now.Add(4*time.Second) {
		t.Error(g.next())
	}
	g.directories(&listing{}, now)
	if g.due(now.Add(time.Hour)) != nil || !g.next().IsZero() {
		t.Error(g.next())
	}
}

func TestPassing(t *testing.T) {
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.ENOMEM, &os.PathError{Err: syscall.ESTALE}} {
		if !Passing(err) {
			t.Error(err, "does not pass")
		}
	}
	for _, err := range []error{nil, errors.New("is a directory"), os.ErrNotExist, &os.PathError{Err: syscall.EACCES}, syscall.EPERM, syscall.ENOENT, syscall.ELOOP} {
		if Passing(err) {
			t.Error(err, "passes")
		}
	}
}
