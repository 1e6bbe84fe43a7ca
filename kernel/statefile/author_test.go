package statefile

import (
	"os"
	"path/filepath"
	"testing"
)

// A name that means another file by now says nothing of who may read the one that is open.
func TestReplacedNamesAreNotQuoted(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "x.toml"), filepath.Join(dir, "other")
	for _, path := range []string{name, other} {
		if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !Quotable(name, f) {
		t.Error("a plain file is not quotable")
	}
	if err := os.Rename(other, name); err != nil {
		t.Fatal(err)
	}
	if Quotable(name, f) {
		t.Error("a file that another one replaced is quotable")
	}
}
