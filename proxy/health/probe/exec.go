package probe

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/machine"
)

// drainOutput is how long a probe waits for the output of a program that has ended, if a process outside of its
// group keeps the pipe open.
const drainOutput = 50 * time.Millisecond

// killWait is how long a probe waits at most for the end of a program that it has killed. In uninterruptible
// sleep, as on a broken disk, a program ends only when the kernel answers it.
const killWait = time.Second

// exec runs a program without a shell. Exit status 0 is ok, 1 is a failure, and n from 2 to 255 is ok with a
// weight of n-2 percent, as for keepalived's MISC_CHECK with misc_dynamic, or a failure with OnlyZero. At the
// timeout, and when the program has ended, its process group is killed. A process that leaves the group lives
// on: the limits of svcproxy's unit hold it. Of a program that the kill does not end, the result has unended.
func (a *attempt) exec() Result {
	program, err := machine.ProgramIn(a.Command, a.prober.ExecDirs)
	if err != nil {
		return result(Void, "health.execDirs: "+err.Error())
	}
	var out output
	cmd := exec.Command(program)
	cmd.Args[0] = a.Command // a link may say what the program is to do
	if a.Args != "" {
		cmd.Args = append(cmd.Args, strings.Split(a.placed(a.Args), "\x00")...)
	}
	cmd.Env = a.environment()
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: a.prober.Credential}
	cmd.WaitDelay = drainOutput
	if err := machine.StartUnprivileged(cmd); err != nil {
		return result(Void, startError(err, a.prober.Credential).Error())
	}
	a.done("started")
	ended := make(chan struct{})
	go func() {
		waitExit(cmd.Process.Pid)
		close(ended)
	}()
	killed := a.waitProgram(cmd.Process.Pid, ended)
	// judge takes a result that comes half a timeout late for our own fault.
	if !within(min(killWait, a.timeout/4), ended) {
		return unended(cmd, ended)
	}
	err = cmd.Wait()
	a.done("ended")
	if killed {
		return result(Timeout, out.String())
	}
	return judgeExit(err, out.String(), a.OnlyZero)
}

// placed returns arguments with the endpoint's address and port for the names that its environment has for these.
func (a *attempt) placed(args string) string {
	return strings.NewReplacer("$SVCPROXY_ADDRESS", a.target.Addr().String(), "$SVCPROXY_PORT",
		strconv.Itoa(int(a.target.Port()))).Replace(args)
}

// startError names the key that asks for another user, if svcproxy may not become that user: it lacks
// capabilities, or the unit's filter refuses the system calls. The error of a program that may not be run is
// another one, EACCES.
func startError(err error, user *syscall.Credential) error {
	if user == nil || !errors.Is(err, syscall.EPERM) {
		return err
	}
	return fmt.Errorf("health.execUser: svcproxy may not become user %d: it lacks CAP_SETUID, see svcproxy.toml(5)",
		user.Uid)
}

// waitProgram waits for the program's end or for the deadline, and kills what is left of its group. It does not reap
// the program: until then the group's number cannot belong to another one.
func (a *attempt) waitProgram(pid int, ended <-chan struct{}) (killed bool) {
	timer := time.NewTimer(time.Until(a.deadline))
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		killed = true
	case <-a.ctx.Done():
		killed = true
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return killed
}

// within reports whether a channel is closed in time.
func within(limit time.Duration, closed <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
		return false
	}
}

// unended returns the result of a program that was killed and goes on. It is reaped when it has ended.
func unended(cmd *exec.Cmd, ended <-chan struct{}) Result {
	reaped := make(chan struct{})
	go func() {
		<-ended
		_ = cmd.Wait() // how it ended is no longer asked
		close(reaped)
	}()
	r := result(Timeout, cannotKill)
	r.unended = reaped
	return r
}

// waitExit returns when the process has ended, which stays a zombie.
func waitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// environment is the whole environment of the program.
func (a *attempt) environment() []string {
	return []string{
		machine.Path,
		"SVCPROXY_SERVICE=" + a.meta.Service,
		"SVCPROXY_ADDRESS=" + a.target.Addr().String(),
		"SVCPROXY_PORT=" + strconv.Itoa(int(a.target.Port())),
		"SVCPROXY_WEIGHT=" + strconv.Itoa(a.meta.Weight),
	}
}

// judgeExit returns the result of a program that has ended by itself.
func judgeExit(err error, output string, onlyZero bool) Result {
	exit, failed := errors.AsType[*exec.ExitError](err)
	if !failed {
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return result(Void, err.Error())
		}
		return result(OK, output)
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		r := result(Exec, "killed by signal: "+status.Signal().String())
		r.Code = 128 + int(status.Signal())
		return r
	}
	code := status.ExitStatus()
	if code == 1 || onlyZero {
		r := result(Exec, output)
		r.Code = code
		return r
	}
	r := result(OK, output)
	r.Code, r.Percent, r.HasPercent = code, code-2, true
	return r
}

// output keeps the start of what a program writes and drops the rest.
type output struct{ text []byte }

func (o *output) Write(b []byte) (int, error) {
	o.text = append(o.text, b[:min(len(b), maxAnswer-len(o.text))]...)
	return len(b), nil
}

func (o *output) String() string { return printable(string(o.text)) }
