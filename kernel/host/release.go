package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Unbooted returns the release of the running kernel if modules are installed below a folder, but none of this release.
func Unbooted(modules string) string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	release := unix.ByteSliceToString(name.Release[:])
	if _, err := os.Stat(filepath.Join(modules, release)); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	installed, err := os.ReadDir(modules)
	if err != nil || len(installed) == 0 {
		return ""
	}
	return release
}
