package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAppend(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal")
	if err := Append(path, []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("none is there:", err)
	}
	if err := Put(path, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Append(path, []byte("b\n")); err != nil {
		t.Error(err)
	}
	if got, err := Read(path, 100); string(got) != "a\nb\n" {
		t.Errorf("%q, %v", got, err)
	}

	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(string) error{
		"hard": func(p string) error { return os.Link(victim, p) },
		"link": func(p string) error { return os.Symlink(victim, p) },
		"fifo": func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"dir":  func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		p := filepath.Join(dir, name)
		if err := put(p); err != nil {
			t.Fatal(err)
		}
		if err := Append(p, []byte("x")); err == nil {
			t.Errorf("%s was appended to", name)
		}
	}
	if got, _ := os.ReadFile(victim); string(got) != "whole" {
		t.Errorf("behind the link: %q", got)
	}
}
