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

	"github.com/svcproxy/svcproxy/kernel"
)

// savedFile is the file in the state directory.
const savedFile = "sysctls.json"

// saved is what parameters were before us, in memory and on disk. It holds for
// one boot: the next one starts with the kernel's own values.
type saved struct {
	path    string // "" keeps it in memory alone
	boot    string // /proc/sys/kernel/random/boot_id
	list    []kernel.SavedSysctl
	dirty   bool // memory and disk differ
	warning error
}

// record is the file's content.
type record struct {
	BootID  string      `json:"bootID"`
	Sysctls []parameter `json:"sysctls"`
}

type parameter struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	Ours   string `json:"ours"`
}

func (s *saved) load() {
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		s.warning = fmt.Errorf("reading what kernel parameters were before: %s: %w", s.path, err)
		return
	}
	if r.BootID != s.boot {
		return
	}
	for _, p := range r.Sysctls {
		if _, there := s.find(p.Name); !there {
			s.put(kernel.SavedSysctl(p))
		}
	}
}

// changing notes a value that is about to be replaced, unless one from earlier
// in this boot is known.
func (s *saved) changing(name, before, ours string) {
	if _, there := s.find(name); !there && before != ours {
		s.put(kernel.SavedSysctl{Name: name, Before: before, Ours: ours})
		s.dirty = true
	}
}

// changed notes a value that was written: it is ours now, or, if it is the one
// from before, nothing is left to put back.
func (s *saved) changed(name, value string) {
	i, there := s.find(name)
	switch {
	case !there:
	case s.list[i].Before == value:
		s.list = slices.Delete(s.list, i, i+1)
		s.dirty = true
	case s.list[i].Ours != value:
		s.list[i].Ours = value
		s.dirty = true
	}
}

func (s *saved) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.list, name, func(p kernel.SavedSysctl, name string) int { return strings.Compare(p.Name, name) })
}

func (s *saved) put(p kernel.SavedSysctl) {
	i, _ := s.find(p.Name)
	s.list = slices.Insert(s.list, i, p)
}

// store brings the disk up to date. What could not be written is tried again
// at the next change.
func (s *saved) store() {
	if !s.dirty || s.path == "" {
		return
	}
	if err := s.write(); err != nil {
		s.warning = fmt.Errorf("remembering what kernel parameters were before: %w", err)
		return
	}
	s.dirty, s.warning = false, nil
}

// write replaces the file as a whole, so that a crash leaves the old or the new.
func (s *saved) write() error {
	r := record{BootID: s.boot, Sysctls: make([]parameter, len(s.list))}
	for i, p := range s.list {
		r.Sysctls[i] = parameter(p)
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	next := s.path + ".new"
	f, err := os.Create(next)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(next, s.path)
}
