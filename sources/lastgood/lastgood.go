// Package lastgood keeps the last content of each file that was accepted, so that a daemon whose file is
// broken when it starts has something to serve.
//
// A copy is there whole or not at all: statefile replaces it as a whole, and it is checked against its sum
// when it is read. A full, read-only or missing disk is an error to the caller and nothing else; the copy
// from before stays. The package refuses to know what is in a file and whether it is any good, never
// waits for one that is being written, and is for one writer.
package lastgood

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
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

// maxSize bounds a copy: the largest service file that is read, 64 MiB, and the first line.
const maxSize = 64<<20 + maxHeader

// Put keeps content under a name, as a rule the path it was read from, with the time in whole seconds.
// What is kept already is not written again, and keeps its time.
func (s Store) Put(name string, content []byte, now time.Time) error {
	if kept, _, ok, _ := s.Get(name); ok && bytes.Equal(kept, content) {
		return nil
	}
	if err := statefile.Write(filepath.Join(s.Dir, fileName(name)), slices.Concat(header(name, content, now), content), 0o600); err != nil {
		return fmt.Errorf("keeping the content of %s: %w", name, err)
	}
	return nil
}

// Get gives what is kept under a name and since when; ok is false if nothing is, or nothing that can be
// read: the error, a *DamagedError among others, says why.
func (s Store) Get(name string) (content []byte, at time.Time, ok bool, err error) {
	path := filepath.Join(s.Dir, fileName(name))
	data, err := statefile.Read(path, maxSize)
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
	if err := statefile.Remove(filepath.Join(s.Dir, fileName(name))); err != nil {
		return fmt.Errorf("forgetting the kept content of %s: %w", name, err)
	}
	return nil
}

// Len is how many copies there are, by the names of their files.
func (s Store) Len() (int, error) {
	d, err := statefile.Open(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("counting what is kept: %w", err)
	}
	defer d.Close()
	files, err := d.Names()
	if err != nil {
		return 0, fmt.Errorf("counting what is kept: %w", err)
	}
	return len(files), nil
}

// Names are those under which something is kept, sorted, but for some that the caller knows: their copies
// are not opened. Copies whose name cannot be read are left out.
func (s Store) Names(known ...string) ([]string, error) {
	d, err := statefile.Open(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing what is kept: %w", err)
	}
	defer d.Close()
	files, err := d.Names()
	if err != nil {
		return nil, fmt.Errorf("listing what is kept: %w", err)
	}
	skip := make(map[string]bool, len(known))
	for _, name := range known {
		skip[fileName(name)] = true
	}
	var names []string
	for _, file := range files {
		if skip[file] {
			continue
		}
		if h, err := readHeader(d, file); err == nil && fileName(h.name) == file {
			names = append(names, h.name)
		}
	}
	slices.Sort(names)
	return names, nil
}
