package daemon

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources/file"
)

// A purge removes svcproxy's files from a directory of the operator, follows no link, and leaves everything else.
func TestRemoveFiles(t *testing.T) {
	root := t.TempDir()
	c := config.Default()
	c.StateDir, c.RuntimeDir = filepath.Join(root, "state"), filepath.Join(root, "run")
	put := func(name string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stay := []string{"elsewhere/events.jsonl", "run/announced", "state/last-good/services/notes~2026", "state/last-good.tar", "state/paged"}
	for _, name := range stay {
		put(name)
	}
	for _, name := range stateFiles {
		put("state/" + name)
	}
	put("state/sysctls.json.unread")
	put("state/names.new")
	put("run/starts.json")
	put("run/svcproxy.sock")
	for _, dir := range []string{"last-good", "last-good/services"} {
		if err := (file.LastGood{Dir: filepath.Join(c.StateDir, dir)}).Put("/etc/svcproxy/a.toml", []byte("x"), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(c.StateDir, "events.jsonl")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "elsewhere/events.jsonl"), link); err != nil {
		t.Fatal(err)
	}
	for range 2 { // nothing to remove is no error
		if err := RemoveFiles(c); err != nil {
			t.Error(err)
		}
	}
	if left := filesIn(t, root); !slices.Equal(left, stay) {
		t.Errorf("left are %q, want %q", left, stay)
	}
	if err := os.Remove(filepath.Join(c.StateDir, "last-good/services/notes~2026")); err != nil {
		t.Fatal(err)
	}
	if err := RemoveFiles(c); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(c.StateDir, "last-good")); !os.IsNotExist(err) {
		t.Errorf("an empty last-good is left: %v", err)
	}
}

// filesIn lists what is below a directory, without directories.
func filesIn(t *testing.T, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
