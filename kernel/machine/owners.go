package machine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// CheckProgram refuses a program that a user other than root could replace: svcproxy may run it as root.
func CheckProgram(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	if err := checkOwners(path); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if real != path {
		if err := checkOwners(real); err != nil {
			return err
		}
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not a program", path)
	}
	return nil
}

// checkOwners checks a file and the folders above it, without following symbolic links: root owns all of them, and
// no other user can write them. A folder like /tmp, where only the owner of a file can replace it, is allowed.
func checkOwners(path string) error {
	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if err := checkOwner(path, info); err != nil {
			return err
		}
		if path == "/" {
			return nil
		}
	}
}

func checkOwner(path string, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 {
		return fmt.Errorf("root does not own %s", path)
	}
	mode := info.Mode()
	if mode&fs.ModeSymlink != 0 || mode.IsDir() && mode&fs.ModeSticky != 0 {
		return nil
	}
	if mode&0o022 != 0 {
		return fmt.Errorf("others than root can write %s", path)
	}
	return nil
}
