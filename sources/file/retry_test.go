package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		if after := time.Since(begin); after != minRetry {
			t.Errorf("after %v", after)
		}
		r.stop()
	})
}

// TestRetries: the pauses grow, and end with the reason, also if the file goes meanwhile.
func TestRetries(t *testing.T) {
	s := newStore()
	now := time.Now()
	s.now = func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "s.toml")
	if err := os.Symlink("/proc/self/mem", path); err != nil {
		t.Fatal(err)
	}
	l := &listing{files: []string{path}}
	s.update(l, scope{})
	s.refresh(l, []string{path}, scope{}) // an event between two tries
	for _, pause := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		if next := s.next().Sub(now); next != pause || s.due(now) != nil {
			t.Errorf("pause %v, want %v; due %q", next, pause, s.due(now))
		}
		now = now.Add(pause)
		if due := s.due(now); !slices.Equal(due, []string{path}) {
			t.Errorf("due after %v: %q", pause, due)
		}
		if s.refresh(l, s.due(now), scope{}) {
			t.Error("the same problem is news")
		}
	}
	spoiled := s.retries[path]
	for what, over := range map[string]func() bool{
		"gone": func() bool { return s.update(&listing{}, scope{}) },
		"named": func() bool {
			return s.update(&listing{named: map[string]bool{path: true}, missing: []string{path}}, scope{})
		},
		"hidden": func() bool {
			s.records[path].good = true
			return s.refresh(&listing{absent: []string{filepath.Dir(path)}}, []string{path}, scope{}) || true
		},
	} {
		s.update(l, scope{})
		s.retries[path] = spoiled
		if !over() || !s.next().IsZero() {
			t.Errorf("%s: next at %v", what, s.next())
		}
	}
}

// TestListedAgain: so is a directory.
func TestListedAgain(t *testing.T) {
	s := newStore()
	now := time.Now()
	s.now = func() time.Time { return now }
	l := &listing{}
	l.unlist("/etc/s.d", fmt.Errorf("open: %w", syscall.EMFILE))
	s.update(l, scope{})
	if s.relistDue(now) || s.next() != now.Add(minRetry) || !s.relistDue(s.next()) {
		t.Error(s.next())
	}
	now = s.next()
	s.update(l, scope{})
	if s.next() != now.Add(2*minRetry) {
		t.Error(s.next())
	}
	s.update(&listing{}, scope{})
	if s.relistDue(now.Add(time.Hour)) || !s.next().IsZero() {
		t.Error(s.next())
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
