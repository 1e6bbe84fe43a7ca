package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/kernel/sysctl"
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

// lastMode is the file in the state directory with the mode of the last run, and in a second line the boot and the
// version of svcproxy.
const lastMode = "mode"

// maxMode is more than the file can have.
const maxMode = 512

// LastMode returns the mode that the last run used, "" if that is not known.
func LastMode(stateDir string) (string, error) {
	mode, _, err := modeAndRun(stateDir)
	return mode, err
}

// LastWasAlike reports whether the last run was of this boot and version: the kernel has what it had then.
func LastWasAlike(stateDir, version string) bool {
	_, run, err := modeAndRun(stateDir)
	this, bootErr := thisRun(version)
	return err == nil && bootErr == nil && run == this
}

func modeAndRun(stateDir string) (mode, run string, err error) {
	text, err := statefile.Read(filepath.Join(stateDir, lastMode), maxMode)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("reading the mode of the last run: %w", err)
	}
	mode, run, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	return mode, run, nil
}

func thisRun(version string) (string, error) {
	boot, err := sysctl.BootID()
	return boot + " " + version, err
}

// KeepMode stores the mode in use by a version of svcproxy for the next run.
func KeepMode(stateDir, mode, version string) error {
	run, err := thisRun(version)
	if err != nil {
		return err
	}
	if last, was, err := modeAndRun(stateDir); err == nil && last == mode && was == run {
		return nil
	}
	if err := statefile.Write(filepath.Join(stateDir, lastMode), []byte(mode+"\n"+run+"\n"), 0o640); err != nil {
		return fmt.Errorf("remembering the mode in use: %w", err)
	}
	return nil
}
