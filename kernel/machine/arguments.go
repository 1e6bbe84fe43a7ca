package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Processes returns the programs that Facts.Processes lists.
func Processes() []Process { return (&reader{}).processes() }

// Arguments returns the command line of a process, without its program; nil if it is not known.
func Arguments(pid int) []string {
	text, err := os.ReadFile(proc(pid, "cmdline"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")[1:]
}

// Within returns a path of a process as it is for this one: a relative path begins in the
// process's working directory, and an absolute path in its root, which a container has of its own.
func Within(pid int, path string) string {
	if !filepath.IsAbs(path) {
		return proc(pid, filepath.Join("cwd", path))
	}
	own, err := os.Stat("/")
	root, other := os.Stat(proc(pid, "root"))
	if err != nil || other != nil || os.SameFile(own, root) {
		return path
	}
	return proc(pid, "root") + path
}

func proc(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
