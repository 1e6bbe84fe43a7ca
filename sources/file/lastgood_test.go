package file

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks the content kept under a name; "" is none.
func want(t *testing.T, s LastGood, name, content string, at time.Time) {
	t.Helper()
	got, when, ok, err := s.Get(name)
	if err != nil || ok != (content != "") || string(got) != content || !when.Equal(at) {
		t.Errorf("%s: got %q of %v, %v %v; want %q of %v", name, got, when, ok, err, content, at)
	}
}

func TestKept(t *testing.T) {
	s := LastGood{filepath.Join(t.TempDir(), "deep", "er")}
	want(t, s, "/etc/a", "", time.Time{})
	must(t, s.Delete("/etc/a"))
	if names, err := s.Names(); len(names) > 0 || err != nil {
		t.Error(names, err)
	}
	long := "/" + strings.Repeat("x/", 2000) + "\n\"%s\xff ü.toml"
	for _, name := range []string{"/etc/a", "/etc-a", "", long} {
		must(t, s.Put(name, []byte("content of "+name), noon))
	}
	want(t, s, "/etc/a", "content of /etc/a", noon)
	want(t, s, "/etc-a", "content of /etc-a", noon)
	want(t, s, long, "content of "+long, noon)
	must(t, s.Put("/etc/a", []byte("other\n"), noon.Add(time.Hour)))
	want(t, s, "/etc/a", "other\n", noon.Add(time.Hour))
	must(t, s.Delete("/etc-a"))
	want(t, s, "/etc-a", "", time.Time{})
	if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"", "/etc/a", long}) {
		t.Error(names, err)
	}
}

func TestForAPerson(t *testing.T) {
	s := LastGood{t.TempDir()}
	must(t, s.Put("/etc/svcproxy/services.toml", []byte("[services]\n"), noon.In(time.FixedZone("", 3600))))
	paths, _ := filepath.Glob(filepath.Join(s.Dir, "etc-svcproxy-services.toml~*"))
	if len(paths) != 1 {
		t.Fatal(paths)
	}
	text, err := os.ReadFile(paths[0])
	must(t, err)
	const first = "# last good content of \"/etc/svcproxy/services.toml\" of 2026-11-20T12:00:00Z crc32c "
	if !strings.HasPrefix(string(text), first) || !strings.HasSuffix(string(text), "\n[services]\n") {
		t.Errorf("%s", text)
	}
	if info, err := os.Stat(paths[0]); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// Content that is already kept is not written again and keeps its time.
func TestUnchangedIsNotWritten(t *testing.T) {
	s := LastGood{t.TempDir()}
	must(t, s.Put("a", []byte("1"), noon))
	before, err := os.Stat(s.path("a"))
	must(t, err)
	must(t, s.Put("a", []byte("1"), noon.Add(time.Hour)))
	after, err := os.Stat(s.path("a"))
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("written again")
	}
	want(t, s, "a", "1", noon)
}

func (s LastGood) path(name string) string { return filepath.Join(s.Dir, fileName(name)) }

// Get refuses a damaged copy, and the next Put replaces it.
func TestDamaged(t *testing.T) {
	s := LastGood{t.TempDir()}
	must(t, s.Put("a", []byte("some content\n"), noon))
	whole, err := os.ReadFile(s.path("a"))
	must(t, err)
	must(t, s.Put("b", []byte("b"), noon))
	other, err := os.ReadFile(s.path("b"))
	must(t, err)
	damaged := [][]byte{other, bytes.Repeat([]byte{0}, len(whole)), append(slices.Clone(whole), '\n')}
	for i := range whole {
		damaged = append(damaged, whole[:i]) // a crash of a machine whose disk lied
		flipped := slices.Clone(whole)
		flipped[i] ^= 0x40
		if !bytes.HasPrefix(flipped, []byte("# last good content of \"a\" of 20")) || i > 50 {
			damaged = append(damaged, flipped)
		}
	}
	for _, data := range damaged {
		must(t, os.WriteFile(s.path("a"), data, 0o600))
		content, _, ok, err := s.Get("a")
		var damage *DamagedError
		if ok || content != nil || !errors.As(err, &damage) || damage.File != s.path("a") {
			t.Fatalf("%q: %q %v %v", data, content, ok, err)
		}
	}
	must(t, s.Put("a", []byte("mended"), noon))
	want(t, s, "a", "mended", noon)
}

// TestCutWrites leaves the files of a crash at each step of a write: a part of the new copy, or all of it, under its
// temporary name. The earlier copy stays, and the next Put succeeds.
func TestCutWrites(t *testing.T) {
	scratch, s := LastGood{t.TempDir()}, LastGood{t.TempDir()}
	must(t, scratch.Put("a", []byte("new content"), noon))
	whole, err := os.ReadFile(scratch.path("a"))
	must(t, err)
	for i := range len(whole) + 1 {
		must(t, s.Put("a", []byte("old content"), noon))
		must(t, os.WriteFile(s.path("a")+".new", whole[:i], 0o600))
		want(t, s, "a", "old content", noon)
		if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"a"}) {
			t.Fatal(names, err)
		}
		must(t, s.Put("a", []byte("new content"), noon.Add(time.Hour)))
		want(t, s, "a", "new content", noon.Add(time.Hour))
	}
}

func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	s := LastGood{filepath.Join(file, "dir")}
	if err := s.Put("a", nil, noon); err == nil || !strings.Contains(err.Error(), "keeping the content of a: ") {
		t.Error(err)
	}
	if _, _, ok, err := s.Get("a"); ok || err == nil {
		t.Error(ok, err)
	}
	if _, err := s.Names(); err == nil {
		t.Error("names of nothing")
	}
	if err := s.Delete("a"); err == nil {
		t.Error("deleted nothing")
	}
}

// FuzzHeader: any first line, and any name.
func FuzzHeader(f *testing.F) {
	f.Add("/etc/svcproxy/services.toml", string(header("/etc/a b", nil, noon)))
	f.Add("\xff\n\"", "# last good content of \"a\" of 2026-11-20T12:00:00Z crc32c 00")
	f.Fuzz(func(t *testing.T, name, line string) {
		h, err := parseHeader(strings.TrimSuffix(string(header(name, []byte(line), noon)), "\n"))
		if err != nil || h.name != name || !h.at.Equal(noon) {
			t.Errorf("%q: %+v %v", name, h, err)
		}
		if n := fileName(name); len(n) > 255 || strings.ContainsAny(n, "/\x00\n") {
			t.Errorf("%q: file name %q", name, n)
		}
		parseHeader(line)
	})
}

// Clear removes copies alone, and the directory only if it is empty.
func TestClear(t *testing.T) {
	s := LastGood{Dir: filepath.Join(t.TempDir(), "copies")}
	if err := s.Clear(); err != nil {
		t.Error("no directory:", err)
	}
	if err := s.Put("/etc/svcproxy/.hidden~a.toml", []byte("x"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepMountPoints(map[string]string{"/etc/svcproxy": "/etc"}); err != nil {
		t.Fatal(err)
	}
	notes := filepath.Join(s.Dir, "notes~2026")
	if err := os.WriteFile(notes, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(); err != nil {
		t.Error(err)
	}
	if files, err := filepath.Glob(filepath.Join(s.Dir+"*", "*")); !slices.Equal(files, []string{notes}) {
		t.Error(files, err)
	}
	if points, err := s.MountPoints(); points != nil || err != nil {
		t.Error(points, err)
	}
	if err := os.Remove(notes); err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the empty directory is there:", err)
	}
}
