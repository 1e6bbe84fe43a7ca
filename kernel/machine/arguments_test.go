package machine

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// A process's arguments and relative paths are those that it has itself.
func TestArguments(t *testing.T) {
	if got := Arguments(os.Getpid()); !slices.Equal(got, os.Args[1:]) {
		t.Errorf("%q, want %q", got, os.Args[1:])
	}
	if got := Arguments(-1); got != nil {
		t.Errorf("of no process: %q", got)
	}
	own, err := os.Stat("arguments_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if same, err := os.Stat(Within(os.Getpid(), "arguments_test.go")); err != nil || !os.SameFile(own, same) {
		t.Errorf("a relative path: %v", err)
	}
	if got := Within(os.Getpid(), "/etc/hosts"); got != "/etc/hosts" {
		t.Errorf("an absolute path: %s", got)
	}
}

// A process with a root of its own, as in a container, has other files at absolute paths.
func TestWithinRoot(t *testing.T) {
	if os.Getenv("WITHIN_ROOT") != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may give a process another root")
	}
	dir := t.TempDir()
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "test"), program, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "keepalived.conf"), nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/test", "-test.run=^TestWithinRoot$")
	c.Dir, c.Env, c.SysProcAttr = "/", []string{"WITHIN_ROOT=1"}, &syscall.SysProcAttr{Chroot: dir}
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the test needs shared libraries, as with -race")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(Within(c.Process.Pid, "/keepalived.conf")); err != nil {
		t.Error(err)
	}
	in.Close()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
