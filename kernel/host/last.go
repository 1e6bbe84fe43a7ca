package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// lastNames is the file in the state directory with the names of the last run. Under
// other names its objects could not be found.
const lastNames = "names"

// maxNames is the size of the longest: a prefix of 6 bytes and a device of 15, and room
// for newlines that an editor adds.
const maxNames = 64

// LastNames returns the names that the last run used, and whether there was one.
func LastNames(stateDir string) (kernel.Names, bool, error) {
	text, err := statefile.Read(filepath.Join(stateDir, lastNames), maxNames)
	if errors.Is(err, fs.ErrNotExist) {
		return kernel.Names{}, false, nil
	}
	if err != nil {
		return kernel.Names{}, false, fmt.Errorf("reading the names of the last run: %w", err)
	}
	f := strings.Fields(string(text))
	if len(f) == 0 {
		return kernel.Names{}, false, nil // the machine crashed while writing it, so the kernel's state is gone too
	}
	if len(f) != 2 {
		return kernel.Names{}, false, fmt.Errorf("%s: want a prefix and a device", filepath.Join(stateDir, lastNames))
	}
	n := kernel.Names{Prefix: f[0], Device: f[1]}
	if err := n.Check(); err != nil {
		return kernel.Names{}, false, fmt.Errorf("%s: %w", filepath.Join(stateDir, lastNames), err)
	}
	return n, true, nil
}

// KeepNames stores the names in use for the next run.
func KeepNames(stateDir string, n kernel.Names) error {
	if last, ok, err := LastNames(stateDir); err == nil && ok && last == n {
		return nil
	}
	if err := statefile.Write(filepath.Join(stateDir, lastNames), []byte(n.Prefix+" "+n.Device+"\n"), 0o640); err != nil {
		return fmt.Errorf("remembering the names in use: %w", err)
	}
	return nil
}

// ForgetNames removes the files of the last run when no owned object is left.
func ForgetNames(stateDir string) error {
	for _, name := range []string{lastNames, lastMode} {
		if err := statefile.Remove(filepath.Join(stateDir, name)); err != nil {
			return fmt.Errorf("forgetting the %s of the last run: %w", name, err)
		}
	}
	return nil
}

// lastMode is the file in the state directory with the mode of the last run.
const lastMode = "mode"

// LastMode returns the mode that the last run used, "" if that is not known.
func LastMode(stateDir string) (string, error) {
	text, err := statefile.Read(filepath.Join(stateDir, lastMode), maxNames)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the mode of the last run: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// KeepMode stores the mode in use for the next run.
func KeepMode(stateDir, mode string) error {
	if last, err := LastMode(stateDir); err == nil && last == mode {
		return nil
	}
	if err := statefile.Write(filepath.Join(stateDir, lastMode), []byte(mode+"\n"), 0o640); err != nil {
		return fmt.Errorf("remembering the mode in use: %w", err)
	}
	return nil
}
