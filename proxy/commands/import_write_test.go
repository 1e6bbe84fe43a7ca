package commands

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that could not be written whole is removed. A file that is not open for writing stands for a full disk.
func TestImportLeavesNoHalfFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "services.toml")
	if err := create(name, "services = {}\n"); err != nil {
		t.Fatal(err)
	}
	if err := create(name, "other"); err == nil {
		t.Error("a file was replaced")
	}
	f, err := os.Open(name) // not for writing
	if err != nil {
		t.Fatal(err)
	}
	if err := finish(f, "[services.web]\n"); !errors.Is(err, syscall.EBADF) {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a file is left: %v", err)
	}
}
