package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources/file"
)

// TestNotify: every way to save a file is noticed.
func TestNotify(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "conf.toml")
	ways := map[string]func() error{
		"made":         func() error { return os.WriteFile(path, []byte("1"), 0o644) },
		"written":      func() error { return os.WriteFile(path, []byte("22"), 0o644) },
		"renamed over": func() error { return rename(dir, path) },
		"removed":      func() error { return os.Remove(path) },
		"a link":       func() error { return os.Symlink("other", path) },
		"its target":   func() error { return os.WriteFile(filepath.Join(dir, "other"), []byte("4"), 0o644) },
		"a link to a file of tomorrow": func() error {
			target, link, tomorrow := filepath.Join(dir, "tomorrow"), filepath.Join(dir, "link"), time.Now().Add(24*time.Hour)
			return errors.Join(os.WriteFile(target, []byte("5"), 0o644), os.Chtimes(target, tomorrow, tomorrow),
				os.Symlink("tomorrow", link), os.Rename(link, path))
		},
	}
	changed := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- file.Notify(ctx, path, 5*time.Millisecond, nil, func() { changed <- struct{}{} })
	}()
	await(t, changed, "the beginning")
	for _, way := range []string{
		"made", "written", "renamed over", "removed", "a link", "its target", "a link to a file of tomorrow",
	} {
		if err := ways[way](); err != nil {
			t.Fatal(err)
		}
		await(t, changed, way)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A file that is being written is not reported until nothing has happened to it for a second.
func TestNotifyWaitsForTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conf.toml")
	if err := os.WriteFile(path, []byte("one = 1\ntwo = 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{}, 100)
	go file.Notify(t.Context(), path, 5*time.Millisecond, nil, func() { changed <- struct{}{} })
	await(t, changed, "the beginning")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	written := time.Now()
	for _, part := range []string{"one = 1\n", "two = 2\n", "three = 3\n"} {
		time.Sleep(50 * time.Millisecond)
		told := len(changed) > 0
		if paused := time.Since(written); paused > 900*time.Millisecond {
			t.Skipf("the machine paused the writer for %v", paused)
		}
		if told {
			t.Errorf("told of half a file, before %q", part)
		}
		written = time.Now()
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, changed, "the whole file")
}

func rename(dir, path string) error {
	temp := filepath.Join(dir, "temp")
	if err := os.WriteFile(temp, []byte("333"), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func await(t *testing.T, changed <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatalf("not noticed: %s", what)
	}
}

func TestReadNeverWaitsForAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Read(path); err == nil || !strings.Contains(err.Error(), "fifo: is not a regular file but a FIFO") {
		t.Fatal(err)
	}
}
