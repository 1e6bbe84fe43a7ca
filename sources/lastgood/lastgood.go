// Package lastgood keeps the last content of each file that was accepted, so that a daemon whose file is
// broken when it starts has something to serve.
//
// A copy is there whole or not at all: written beside, synced, renamed over, and checked against its sum
// when it is read. A full, read-only or missing disk is an error to the caller and nothing else; the copy
// from before stays. The package refuses to know what is in a file and whether it is any good, never
// waits for one that is being written, and is for one writer.
package lastgood

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Store is a directory with a copy of each file, made when the first is put.
type Store struct {
	Dir string
}

// DamagedError is a copy that cannot be what was put: cut, edited, or of another version.
type DamagedError struct {
	File string // the copy
	Why  string
}

// Error names the copy.
func (e *DamagedError) Error() string { return fmt.Sprintf("%s: %s", e.File, e.Why) }

// temp ends the name of a copy that is being written. One that a crash left is overwritten by the next.
const temp = ".new"

// Put keeps content under a name, as a rule the path it was read from, with the time in whole seconds.
// What is kept already is not written again, and keeps its time.
func (s Store) Put(name string, content []byte, now time.Time) error {
	if kept, _, ok, _ := s.Get(name); ok && bytes.Equal(kept, content) {
		return nil
	}
	if err := s.replace(fileName(name), slices.Concat(header(name, content, now), content)); err != nil {
		return fmt.Errorf("keeping the content of %s: %w", name, err)
	}
	return nil
}

// Get gives what is kept under a name and since when; ok is false if nothing is, or nothing that can be
// read: the error, a *DamagedError among others, says why.
func (s Store) Get(name string) (content []byte, at time.Time, ok bool, err error) {
	path := filepath.Join(s.Dir, fileName(name))
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, time.Time{}, false, nil
	}
	if err != nil {
		return nil, time.Time{}, false, fmt.Errorf("reading the kept content of %s: %w", name, err)
	}
	first, content, _ := bytes.Cut(data, []byte("\n"))
	h, err := parseHeader(string(first))
	switch {
	case err != nil:
		return nil, time.Time{}, false, &DamagedError{path, err.Error()}
	case h.name != name:
		return nil, time.Time{}, false, &DamagedError{path, fmt.Sprintf("is of %s, not of %s", h.name, name)}
	case h.sum != sumOf(content):
		return nil, time.Time{}, false, &DamagedError{path, "is not what was written: its sum is another one"}
	}
	return content, h.at, true, nil
}

// Delete forgets what is kept under a name, if anything is.
func (s Store) Delete(name string) error {
	err := os.Remove(filepath.Join(s.Dir, fileName(name)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the kept content of %s: %w", name, err)
	}
	return nil
}

// Names are those under which something is kept, sorted; copies whose name cannot be read are left out.
func (s Store) Names() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing what is kept: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), temp) || !e.Type().IsRegular() {
			continue
		}
		if h, err := readHeader(filepath.Join(s.Dir, e.Name())); err == nil && fileName(h.name) == e.Name() {
			names = append(names, h.name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// replace writes a file by renaming over it, each step on the disk before the next: at any time the file
// is the old one or the new one.
func (s Store) replace(file string, data []byte) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(s.Dir, file)
	if err := writeSynced(path+temp, data); err != nil {
		os.Remove(path + temp) // a full disk has no room for half a file
		return err
	}
	if err := os.Rename(path+temp, path); err != nil {
		return err
	}
	return syncDir(s.Dir)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir puts a rename on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
