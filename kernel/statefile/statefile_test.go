package statefile

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const nobody = 65534

func TestWriteReadRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "on demand", "file")
	if err := Remove(path); err != nil {
		t.Error("nothing to remove:", err)
	}
	if _, err := Read(path, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, text := range []string{"old", "new"} {
		if err := Write(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path, 3); string(got) != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := Read(path, 2); err == nil || !strings.Contains(err.Error(), "larger than 2 bytes") {
		t.Error(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o640 {
		t.Error(st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o750 {
		t.Error(st.Mode(), err)
	}
	if err := Remove(path); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) > 0 {
		t.Error("left:", entries)
	}
	for _, name := range []string{"", ".", "..", "../x"} {
		d, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Write(name, nil, 0o600); err == nil {
			t.Errorf("%q was written", name)
		}
		d.Close()
	}
}

// An obstacle at the place of a file, or of a temporary one, leads to no change elsewhere.
func TestInTheWay(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	for what, put := range map[string]func(path string) error{
		"a link":            func(path string) error { return os.Symlink(victim, path) },
		"a link to nothing": func(path string) error { return os.Symlink(victim+"2", path) },
		"a FIFO":            func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"a hard link":       func(path string) error { return os.Link(victim, path) },
		"garbage":           func(path string) error { return os.WriteFile(path, []byte("garbage"), 0o666) },
	} {
		t.Run(what, func(t *testing.T) {
			if err := os.WriteFile(victim, []byte("victim"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if err := errors.Join(put(path), put(path+newSuffix)); err != nil {
				t.Fatal(err)
			}
			if got, err := Read(path, 100); err == nil && what != "garbage" && what != "a hard link" {
				t.Errorf("read %q", got)
			}
			if err := Write(path, []byte("ours"), 0o600); err != nil {
				t.Error(err)
			}
			if got, err := Read(path, 100); string(got) != "ours" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if got, err := os.ReadFile(victim); string(got) != "victim" || err != nil {
				t.Errorf("the victim is %q, %v", got, err)
			}
			d, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := Put(path, []byte("ours too"), 0o600); err != nil {
				t.Error(err)
			}
			if got, err := Read(path, 100); string(got) != "ours too" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if names, err := d.Names(); !slices.Equal(names, []string{"file"}) || err != nil {
				t.Error(names, err)
			}
		})
	}
}

// A directory at the place of a file is an error and is not removed.
func TestDirectoryInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 100); err == nil {
		t.Error("read a directory")
	}
	if err := Write(path, nil, 0o600); err == nil {
		t.Error("wrote over a directory")
	}
	if err := Put(path, nil, 0o600); err == nil {
		t.Error("put over a directory")
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 1 || err != nil {
		t.Error("left behind:", entries, err)
	}
}

// The operator may replace the directory, or one above, by a link. Another user may not.
func TestLinksOnTheWay(t *testing.T) {
	top := t.TempDir()
	for _, link := range []struct{ name, to string }{{"relative", "real/x/../.."}, {"absolute", top}, {"loop", "loop"}} {
		if err := os.Symlink(link.to, filepath.Join(top, link.name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(top, "real/x"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(top, "relative/absolute/real/file")
	if err := Write(path, []byte("text"), 0o600); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(top, "real/file")); string(got) != "text" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Open(filepath.Join(top, "loop/x")); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(top, "real/file")); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a link to another user")
	}
	if err := os.Lchown(filepath.Join(top, "absolute"), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("more"), 0o600); err == nil || !strings.Contains(err.Error(), "absolute is a link that user 65534 has made") {
		t.Error(err)
	}
}

// Files that root writes belong to the owner of the directory, the service.
func TestRootWritesForTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "made/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"made", "made/file"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if owner := st.Sys().(*syscall.Stat_t); owner.Uid != nobody || owner.Gid != nobody {
			t.Errorf("%s belongs to %d:%d", name, owner.Uid, owner.Gid)
		}
	}
}

// Chmod and Chgrp change files in the directory and follow no links.
func TestChmodFollowsNoLink(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Symlink(victim, filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := errors.Join(d.Chmod("file", 0o640), d.Chgrp("file", os.Getegid())); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(d.Handle("file")); err != nil || st.Mode() != 0o640 {
		t.Error(st, err)
	}
	if err := d.Chmod("link", 0o666); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
	if err := d.Chgrp("link", os.Getegid()); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
	if st, err := os.Stat(victim); err != nil || st.Mode() != 0o600 {
		t.Error(st, err)
	}
}

// The first Write in a directory removes unfinished files of a crash. It keeps files that may still
// have a writer, links, and all other files.
func TestUnfinishedFiles(t *testing.T) {
	dir := t.TempDir()
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{".file1234567890123", "other.new", ".new4567890123456", ".hidden~123456789012"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name != ".new4567890123456" {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink("target", filepath.Join(dir, ".link7890123456789")); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{".hidden~123456789012", ".link7890123456789", ".new4567890123456", "file"}; !slices.Equal(names, want) || err != nil {
		t.Errorf("%v and %v, want %v", names, err, want)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if names, err := d.Names(); !slices.Equal(names, []string{".hidden~123456789012", "file"}) || err != nil {
		t.Error(names, err)
	}
}

// If a file cannot be written, the old one stays and nothing is left behind.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 10, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	errWrite, errPut := Write(path, make([]byte, 100), 0o600), Put(path, make([]byte, 100), 0o600)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if errWrite == nil || errPut == nil {
		t.Errorf("Write: %v, Put: %v", errWrite, errPut)
	}
	if got, err := Read(path, 100); string(got) != "old" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
		t.Error("left behind:", entries, err)
	}
}

func TestSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orders")
	for _, none := range []string{path, filepath.Join(path, "x")} {
		if err := SetAside(none); err != nil {
			t.Error("none is there:", err)
		}
	}
	for _, text := range []string{"first", "second"} {
		if err := Write(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := SetAside(path); err != nil {
			t.Error(err)
		}
		if got, err := Read(path+".unread", 100); string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
}
