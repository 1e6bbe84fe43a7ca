package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

// Store is a directory of tables that programs set, each a file that a Source reads like one of services.d. A table is
// stored as a whole, or refused and not stored. A kill leaves the earlier one or the next.
type Store struct {
	Dir string
	mu  sync.Mutex // of changes, with the look at what is there
}

// MaxTables is how many tables a Store takes.
const MaxTables = 1000

// Errors of a Store.
var (
	ErrNoTable = errors.New("there is no such table")
	ErrChanged = errors.New("the table is not as it was: somebody else has changed it")
	ErrName    = errors.New("a table's name has at most 63 of a-z, 0-9, - and _, and begins with a letter or digit")
)

// Stored describes a table of a Store. Its JSON form is stable.
type Stored struct {
	Name     string    `json:"name"`
	Digest   string    `json:"digest"` // of its text, 32 hexadecimal digits
	Services int       `json:"services"`
	Bytes    int       `json:"bytes"`
	Changed  time.Time `json:"changed"`
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

func (s *Store) path(name string) (string, error) {
	inside := func(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_' }
	if name == "" || len(name) > 63 || strings.TrimFunc(name, inside) != "" || strings.Trim(name, "-_") != name {
		return "", fmt.Errorf("%w, have %.80q", ErrName, name)
	}
	return filepath.Join(s.Dir, name+".toml"), nil
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
	_, err = s.expect(path, want)
	if errors.Is(err, ErrNoTable) && want.Digest == "" {
		err = s.room()
	}
	if err == nil {
		err = statefile.Write(path, text, 0o640)
	}
	if err != nil {
		return Stored{}, nil, err
	}
	var lines []string
	for _, w := range warnings {
		lines = append(lines, w.Error())
	}
	return describe(name, text, table, time.Now()), lines, nil
}

func rejected(problems ...sources.Problem) error { return &sources.RejectedError{Problems: problems} }

func describe(name string, text []byte, t sources.Table, changed time.Time) Stored {
	return Stored{Name: name, Digest: digest(text), Services: t.Services.Len(), Bytes: len(text), Changed: changed.UTC()}
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// expect reads what is there. The error is ErrNoTable or ErrChanged, or of the disk.
func (s *Store) expect(path string, want Expect) ([]byte, error) {
	text, err := statefile.Read(path, MaxSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNoTable
	case err != nil:
		return nil, err
	case want.Absent || want.Digest != "" && want.Digest != digest(text):
		return nil, fmt.Errorf("%w; its digest is %s", ErrChanged, digest(text))
	}
	return text, nil
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
	text, err := s.expect(path, Expect{})
	if err != nil {
		return nil, Stored{}, err
	}
	var changed time.Time
	if info, err := os.Lstat(path); err == nil {
		changed = info.ModTime()
	}
	t, _, _ := Decode(name, text)
	return text, describe(name, text, t, changed), nil
}

// Remove removes a table.
func (s *Store) Remove(name string, want Expect) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.expect(path, want); err != nil {
		return err
	}
	return statefile.Remove(path)
}

// List describes all tables, by name.
func (s *Store) List() ([]Stored, error) {
	names, err := s.names()
	all := []Stored{}
	for _, name := range names {
		_, stored, err := s.Get(name)
		if err == nil {
			all = append(all, stored)
		}
	}
	return all, err
}

// Clear removes all tables and the directory, unless that has other files.
func (s *Store) Clear() error {
	names, err := s.names()
	for _, name := range names {
		err = errors.Join(err, statefile.Remove(filepath.Join(s.Dir, name+".toml")))
	}
	if removed := os.Remove(s.Dir); err == nil && !errors.Is(removed, fs.ErrNotExist) {
		err = removed
	}
	return err
}

// fromJSON writes a JSON object as TOML.
func fromJSON(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		if at, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("not JSON: %w, in line %d", err, 1+bytes.Count(text[:at.Offset], []byte("\n")))
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: something follows the object")
	}
	values, err := typed(object)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(values); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// typed gives numbers the types of TOML. TOML has no null.
func typed(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, errors.New("null is no value here: leave the key out")
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			item, err := typed(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
	case map[string]any:
		for key := range v {
			item, err := typed(v[key])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			v[key] = item
		}
	}
	return v, nil
}
