package commands

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that could not be written whole is removed, and no file is replaced.
func TestWriteNewLeavesNoHalfFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "services.toml")
	full := func(w io.Writer) error {
		_, err := io.WriteString(w, "[services.web]\n")
		return errors.Join(err, syscall.ENOSPC)
	}
	if err := writeNew(name, 0o644, full); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a file is left: %v", err)
	}
	whole := func(w io.Writer) error {
		_, err := io.WriteString(w, "services = {}\n")
		return err
	}
	if err := writeNew(name, 0o644, whole); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(name, 0o644, full); err == nil {
		t.Error("a file was replaced")
	}
	if data, err := os.ReadFile(name); err != nil || string(data) != "services = {}\n" {
		t.Errorf("it has %q, %v", data, err)
	}
}
