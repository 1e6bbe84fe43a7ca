package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Path is PATH in the environment of a program that gets none of svcproxy's variables.
const Path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// CloseOnExec sets close-on-exec on all files but standard input, output and error: programs inherit nothing that the
// process which started svcproxy left open, such as the pipe of make or the socket of a supervisor. Go opens its own
// files so.
func CloseOnExec() error {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, f := range files {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// StartUnprivileged starts a program without our capabilities. The thread that starts it ends at once, so
// Pdeathsig would kill the program: see RunUnprivileged.
func StartUnprivileged(cmd *exec.Cmd) error { return unprivileged(cmd.Start) }

// RunUnprivileged starts a program without our capabilities and waits until it has ended. The thread that starts it
// lives as long: a program with Pdeathsig ends with svcproxy, and not before.
func RunUnprivileged(cmd *exec.Cmd) error { return unprivileged(cmd.Run) }

// unprivileged calls a function on a thread that has no ambient capabilities. systemd gives them to svcproxy, and every
// program that it starts would inherit them. They are a thread's own, so a thread of its own gives them up. It ends
// with the call: the end of a locked goroutine is the end of its thread.
func unprivileged(call func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
			ended <- fmt.Errorf("giving up capabilities: %w", err) // EINVAL: Linux before 4.3 has none
			return
		}
		ended <- call()
	}()
	return <-ended
}
