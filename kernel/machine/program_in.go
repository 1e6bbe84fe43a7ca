package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ProgramIn returns the path, without symbolic links, of a program in one of some directories or below. Root owns the
// program and every directory on the way to it, and no other user can write them, so none can put another file there
// between this look and the start of the program. A link that leads out of the directories is refused.
func ProgramIn(path string, dirs []string) (string, error) {
	if err := CheckProgram(path); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	for _, dir := range dirs {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || !strings.HasPrefix(real, strings.TrimSuffix(dir, "/")+"/") {
			continue // one that does not exist has no programs
		}
		return real, checkClosed(filepath.Dir(real), dir)
	}
	return "", fmt.Errorf("%s is in none of the directories %s", real, strings.Join(dirs, " "))
}

// checkClosed refuses a directory, or one above it up to root, where others than its owner can make files. CheckProgram
// allows a sticky one, such as /tmp; but there anybody can make a hard link to any program.
func checkClosed(dir, root string) error {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("others than root can write %s", dir)
		}
		if dir == root || dir == "/" {
			return nil
		}
	}
}
