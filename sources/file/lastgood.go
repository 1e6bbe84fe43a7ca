package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// LastGood is a directory with the last good content of each file, as earlier runs accepted it. A daemon whose file is
// broken at the start serves that. Put makes the directory.
//
// Each file is replaced as a whole, and a copy is checked against its sum when it is read. If the disk is full,
// read-only or missing, the caller gets an error and the earlier copy stays. What a file contains and whether it is
// valid is not known here. There must be one writer.
type LastGood struct {
	Dir string
}

// DamagedError is a copy that was truncated, edited or written by another version.
type DamagedError struct {
	File string // the copy
	Why  string
}

// Error names the copy.
func (e *DamagedError) Error() string { return fmt.Sprintf("%s: %s", e.File, e.Why) }

// maxCopy bounds a copy, in bytes: the largest service file and the first line.
const maxCopy = MaxSize + maxHeader

// Put keeps content under a name, usually the path of its file. now is rounded to seconds. Put does not write
// content that is already kept, which then keeps its earlier time.
func (s LastGood) Put(name string, content []byte, now time.Time) error {
	if kept, _, ok, _ := s.Get(name); ok && bytes.Equal(kept, content) {
		return nil
	}
	if err := statefile.Write(filepath.Join(s.Dir, fileName(name)), slices.Concat(header(name, content, now), content),
		0o600); err != nil {
		return fmt.Errorf("keeping the content of %s: %w", name, err)
	}
	return nil
}

// Get returns the content kept under a name, and since when. ok is false if there is none. If it cannot be
// read, ok is false and err, possibly a *DamagedError, says why.
func (s LastGood) Get(name string) (content []byte, at time.Time, ok bool, err error) {
	path := filepath.Join(s.Dir, fileName(name))
	data, err := statefile.Read(path, maxCopy)
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

// Delete removes the content kept under a name, if there is any.
func (s LastGood) Delete(name string) error {
	if err := statefile.Remove(filepath.Join(s.Dir, fileName(name))); err != nil {
		return fmt.Errorf("forgetting the kept content of %s: %w", name, err)
	}
	return nil
}

// Clear removes all copies and the record of mount points, and the directory if nothing else is in it.
func (s LastGood) Clear() error {
	err := statefile.Remove(s.mountsFile())
	if err != nil {
		return fmt.Errorf("forgetting what is kept: %w", err)
	}
	d, err := statefile.Open(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("forgetting what is kept: %w", err)
	}
	defer d.Close()
	files, err := d.Names()
	for _, file := range files {
		if isCopy(file) {
			err = errors.Join(err, d.Remove(file))
		}
	}
	if err == nil {
		err = s.removeDir()
	}
	if err != nil {
		return fmt.Errorf("forgetting what is kept: %w", err)
	}
	return nil
}

// removeDir removes the directory if it is empty. It does not follow a link in its place.
func (s LastGood) removeDir() error {
	above, err := statefile.Open(filepath.Dir(s.Dir))
	if err != nil {
		return err
	}
	defer above.Close()
	err = syscall.Rmdir(above.Handle(filepath.Base(s.Dir)))
	if err != nil && err != syscall.ENOTEMPTY && err != syscall.ENOTDIR {
		return &fs.PathError{Op: "rmdir", Path: s.Dir, Err: err}
	}
	return nil
}

// Len is the number of copies.
func (s LastGood) Len() (int, error) {
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

// Names lists the names of all copies but the known ones, sorted. It does not open the copies of known names.
// It leaves out a copy whose name it cannot read.
func (s LastGood) Names(known ...string) ([]string, error) {
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
