package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// lastNames is the file in the state directory that remembers under which names
// objects were made: under other names they could not be found again.
const lastNames = "names"

// LastNames are the names that the last run used, and whether there was one.
func LastNames(stateDir string) (kernel.Names, bool, error) {
	text, err := os.ReadFile(filepath.Join(stateDir, lastNames))
	if errors.Is(err, fs.ErrNotExist) {
		return kernel.Names{}, false, nil
	}
	if err != nil {
		return kernel.Names{}, false, fmt.Errorf("reading the names of the last run: %w", err)
	}
	f := strings.Fields(string(text))
	if len(f) == 0 {
		return kernel.Names{}, false, nil // the machine died as it was written, and the kernel's state with it
	}
	if len(f) != 2 {
		return kernel.Names{}, false, fmt.Errorf("%s: want a prefix and a device, have %q", filepath.Join(stateDir, lastNames), text)
	}
	return kernel.Names{Prefix: f[0], Device: f[1]}, true, nil
}

// KeepNames remembers the names in use for the next run.
func KeepNames(stateDir string, n kernel.Names) error {
	if last, ok, err := LastNames(stateDir); err == nil && ok && last == n {
		return nil
	}
	if err := replaceFile(filepath.Join(stateDir, lastNames), n.Prefix+" "+n.Device+"\n"); err != nil {
		return fmt.Errorf("remembering the names in use: %w", err)
	}
	return nil
}

// replaceFile writes a file by renaming over, so that it is there with the old
// text or with the new.
func replaceFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ForgetNames is for when nothing under them is left.
func ForgetNames(stateDir string) error {
	err := os.Remove(filepath.Join(stateDir, lastNames))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the names of the last run: %w", err)
	}
	return nil
}
