package sysctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// SavedFile is the name of the file in the state directory.
const SavedFile = "sysctls.json"

// maxSaved limits the size of the file in bytes. It holds about 40 parameters of 200 bytes each,
// and one more for each link.
const maxSaved = 1 << 20

// Saved keeps the values that parameters had before svcproxy changed them, so that cleanup can
// restore them. It holds sysctls and IPVS timeouts, in memory and in a file.
//
// A saved value is valid for one boot, because the next boot starts with the kernel's own values.
// Saved does not read or write parameters. Its methods do not fail: if the state directory cannot
// be used, the values stay in memory and Warning returns the reason.
//
// One goroutine at a time may use it.
type Saved struct {
	// Keeper repeats a write that failed; nil: the next Flush does.
	Keeper *statefile.Keeper

	path  string // "" keeps the values in memory only
	boot  string
	list  []kernel.Saved // sorted by name
	dirty bool           // the file differs from memory

	mu      sync.Mutex // of what follows, which the Keeper's goroutine changes
	unread  bool       // the file, or a value in it, was not understood
	warning error
}

// record is the content of the file.
type record struct {
	BootID  string      `json:"bootID"`
	Sysctls []parameter `json:"sysctls"`
}

type parameter struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	Ours   string `json:"ours"`
}

// BootID returns the id that the kernel made for this boot.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// OpenSaved reads the values saved in stateDir during this boot. With an empty stateDir it keeps
// values in memory only.
func OpenSaved(stateDir, bootID string) *Saved {
	s := &Saved{boot: bootID}
	if stateDir != "" {
		s.path = filepath.Join(stateDir, SavedFile)
		s.load()
	}
	return s
}

func (s *Saved) load() {
	text, err := statefile.Read(s.path, maxSaved)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		s.unread, s.warning = true, fmt.Errorf("reading saved kernel parameters: %s: %w", s.path, err)
		return
	}
	if r.BootID != s.boot {
		return
	}
	for _, p := range r.Sysctls {
		if _, found := s.find(p.Name); !found {
			s.insert(kernel.Saved(p))
		}
	}
}

// Check drops each value for which allowed returns an error, and keeps the error for Warning. The
// service's user can write the file, so root must not restore everything it finds there.
func (s *Saved) Check(allowed func(kernel.Saved) error) {
	s.list = slices.DeleteFunc(s.list, func(p kernel.Saved) bool {
		err := allowed(p)
		if err != nil {
			s.unread, s.warning = true, fmt.Errorf("%s: %w: left out", s.path, err)
		}
		return err != nil
	})
}

// All returns the saved values, sorted by name.
func (s *Saved) All() []kernel.Saved { return slices.Clone(s.list) }

// Warning returns why the last use of the state directory failed, or nil. While it is not nil,
// `cleanup` may not find all saved values.
func (s *Saved) Warning() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warning
}

// Save keeps the value that a parameter has before it is replaced by ours. The first value of a
// boot wins. Call Flush before the parameter is written: after a crash in between, the file has a
// value that was not changed, which is harmless.
func (s *Saved) Save(name, value, ours string) {
	if _, found := s.find(name); !found && value != ours {
		s.insert(kernel.Saved{Name: name, Before: value, Ours: ours})
		s.dirty = true
	}
}

// Wrote records that svcproxy wrote value to a parameter. If that is the saved value, nothing is
// left to restore and the entry is dropped.
func (s *Saved) Wrote(name, value string) {
	i, found := s.find(name)
	switch {
	case !found:
	case s.list[i].Before == value:
		s.list = slices.Delete(s.list, i, i+1)
		s.dirty = true
	case s.list[i].Ours != value:
		s.list[i].Ours = value
		s.dirty = true
	}
}

func (s *Saved) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.list, name, func(p kernel.Saved, name string) int {
		return strings.Compare(p.Name, name)
	})
}

func (s *Saved) insert(p kernel.Saved) {
	i, _ := s.find(p.Name)
	s.list = slices.Insert(s.list, i, p)
}

// Flush writes the file if it differs from memory. After a failure the next Flush tries again.
func (s *Saved) Flush() {
	if !s.dirty || s.path == "" {
		return
	}
	text, err := s.encode()
	if err == nil {
		err = s.Keeper.Do(SavedFile, func() error { return s.write(text) })
	}
	s.dirty = err != nil
}

func (s *Saved) encode() ([]byte, error) {
	r := record{BootID: s.boot, Sysctls: make([]parameter, len(s.list))}
	for i, p := range s.list {
		r.Sysctls[i] = parameter(p)
	}
	text, err := json.MarshalIndent(r, "", "\t")
	return append(text, '\n'), err
}

// write replaces the whole file, so that a crash leaves the old one or the new one. A file that was not
// understood is kept under another name: it may be the only record of what the parameters were.
func (s *Saved) write(text []byte) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unread {
		err = statefile.SetAside(s.path)
	}
	if err != nil {
		err = fmt.Errorf("setting %s aside, which cannot be read: %w", s.path, err)
	} else {
		s.unread = false
		err = statefile.Write(s.path, text, 0o640)
	}
	if err != nil {
		err = fmt.Errorf("saving kernel parameters: %w", err)
	}
	if s.warning = err; s.Keeper != nil {
		s.warning = nil // the Keeper says it
	}
	return err
}
