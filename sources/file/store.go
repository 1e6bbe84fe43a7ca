package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

// Store is a directory of tables that programs set, each a file that a Source reads like one of services.d. A table is
// stored as a whole, or refused and not stored. A kill leaves the earlier one or the next.
type Store struct {
	Dir string

	mu    sync.Mutex // of changes, with the look at what is there
	known sync.Map   // of Stored by name, as the last Put or List found them
}

// MaxTables is how many tables a Store takes.
const MaxTables = 1000

// Errors of a Store.
var (
	ErrNoTable = errors.New("there is no such table")
	ErrChanged = errors.New("the table is not the one that --if-match or --new counts on")
	ErrName    = errors.New("a table's name has at most 63 of a-z, 0-9, - and _, with a letter or digit at both ends")
)

// Stored describes a table of a Store. Its JSON form is stable.
type Stored struct {
	Name     string    `json:"name"`
	Digest   string    `json:"digest"` // of its text, 32 hexadecimal digits
	Services int       `json:"services"`
	Bytes    int       `json:"bytes"`
	Changed  time.Time `json:"changed"`
	// Unchanged: Put found the same text there.
	Unchanged bool   `json:"unchanged,omitempty"`
	Error     string `json:"error,omitempty"` // why it cannot be read
}

// Expect is what a change counts on. Without it a change is made whatever is there.
type Expect struct {
	Digest string // the table has this digest; "" = any, or no table
	Absent bool   // there is no table of this name
}

// Pattern is the glob of the files.
func (s *Store) Pattern() string { return filepath.Join(s.Dir, "*.toml") }

// Make makes the directory, so that a Source can watch it.
func (s *Store) Make() error {
	d, err := statefile.Make(s.Dir, 0o750)
	if err != nil {
		return err
	}
	return d.Close()
}

// Path is the file of a table.
func (s *Store) Path(name string) string { return filepath.Join(s.Dir, name+".toml") }

func (s *Store) path(name string) (string, error) {
	inside := func(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_' }
	if name == "" || len(name) > 63 || strings.TrimFunc(name, inside) != "" || strings.Trim(name, "-_") != name {
		return "", fmt.Errorf("%w, have %.80q", ErrName, name)
	}
	return s.Path(name), nil
}

// Put stores a table, the text of a services file or the same in JSON. A *sources.RejectedError has what is wrong with
// the text; the warnings are as those of Decode.
func (s *Store) Put(name string, text []byte, want Expect) (Stored, []string, error) {
	path, err := s.path(name)
	if err != nil {
		return Stored{}, nil, err
	}
	of := "table " + name
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		if text, err = fromJSON(text); err != nil {
			return Stored{}, nil, rejected(sources.Problem{Origin: sources.Origin{File: of}, Message: err.Error()})
		}
		of += " as TOML"
	}
	if len(text) > MaxSize {
		return Stored{}, nil, rejected(sources.Problem{Origin: sources.Origin{File: of},
			Message: fmt.Sprintf("it is %d MiB large: at most %d are read", len(text)>>20, MaxSize>>20)})
	}
	table, warnings, problems := Decode(of, text)
	if len(problems) == 0 {
		problems = sources.Validate(table)
	}
	if len(problems) == 0 && table.Services.Len() == 0 {
		problems = append(problems, sources.Problem{Origin: sources.Origin{File: of},
			Message: "it has no services: svcproxy table remove removes a table"})
	}
	if len(problems) > 0 {
		return Stored{}, nil, rejected(problems...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := describe(name, text, table, time.Now())
	if err := s.expect(path, want); err != nil {
		return Stored{}, nil, err
	}
	was, err := statefile.Read(path, MaxSize)
	switch {
	case err == nil && bytes.Equal(was, text):
		next.Unchanged = true
	case errors.Is(err, fs.ErrNotExist):
		err = s.room()
	default: // what cannot be read is replaced
		err = nil
	}
	if err == nil && !next.Unchanged {
		err = statefile.Write(path, text, 0o640)
	}
	if err != nil {
		return Stored{}, nil, err
	}
	var lines []string
	for _, w := range warnings {
		lines = append(lines, w.Error())
	}
	return next, lines, nil
}

func rejected(problems ...sources.Problem) error { return &sources.RejectedError{Problems: problems} }

func describe(name string, text []byte, t sources.Table, changed time.Time) Stored {
	return Stored{Name: name, Digest: digest(text), Services: t.Services.Len(), Bytes: len(text), Changed: changed.UTC()}
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// expect holds what is there to what a change counts on. The error is ErrChanged, or of the disk.
func (s *Store) expect(path string, want Expect) error {
	if want == (Expect{}) {
		return nil
	}
	text, err := statefile.Read(path, MaxSize)
	switch {
	case errors.Is(err, fs.ErrNotExist) && want.Absent:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is none", ErrChanged)
	case err != nil:
		return err
	case want.Absent || want.Digest != digest(text):
		return fmt.Errorf("%w: its digest is %s", ErrChanged, digest(text))
	}
	return nil
}

// room is an error if no further table has room.
func (s *Store) room() error {
	names, err := s.names()
	if err == nil && len(names) >= MaxTables {
		err = fmt.Errorf("there are %d tables, and no more are taken", len(names))
	}
	return err
}

func (s *Store) names() (all []string, err error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".toml"); ok {
			all = append(all, name)
		}
	}
	return all, nil
}

// Get returns the text of a table, as TOML.
func (s *Store) Get(name string) ([]byte, Stored, error) {
	path, err := s.path(name)
	if err != nil {
		return nil, Stored{}, err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Stored{}, ErrNoTable
	}
	var text []byte
	if err == nil {
		text, err = statefile.Read(path, MaxSize)
	}
	if err != nil {
		return nil, Stored{}, err
	}
	stored := Stored{Name: name, Digest: digest(text), Bytes: len(text), Changed: info.ModTime().UTC()}
	if was, ok := s.known.Load(name); ok && was.(Stored).Digest == stored.Digest {
		stored.Services = was.(Stored).Services
	} else { // a table takes a hundred times longer to decode than to read
		t, _, _ := Decode(name, text)
		stored.Services = t.Services.Len()
		s.known.Store(name, stored)
	}
	return text, stored, nil
}

// Remove removes a table.
func (s *Store) Remove(name string, want Expect) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.expect(path, want); err != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ErrNoTable
	}
	s.known.Delete(name)
	return statefile.Remove(path)
}

// List describes all tables, by name.
func (s *Store) List() ([]Stored, error) {
	names, err := s.names()
	all := []Stored{}
	for _, name := range names {
		_, stored, err := s.Get(name)
		if err != nil {
			stored = Stored{Name: name, Error: err.Error()}
		}
		all = append(all, stored)
	}
	return all, err
}

// Clear removes all tables, and the directory unless that has other files.
func (s *Store) Clear() error {
	d, err := statefile.Open(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := d.Names()
	for _, name := range names {
		if strings.HasSuffix(name, ".toml") {
			err = errors.Join(err, d.Remove(name))
		}
	}
	os.Remove(s.Dir) // it fails if the directory has other files
	return errors.Join(err, d.Close())
}
