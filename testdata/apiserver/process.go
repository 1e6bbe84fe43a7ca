package apiserver

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// startLimit is how long a process may take to serve. kube-apiserver takes some 5 s on two idle processors.
const startLimit = 2 * time.Minute

// A Process is a server that can be killed and started again with the same arguments. Asked to end,
// kube-apiserver would wait a minute for its watchers to leave.
type Process struct {
	Name string
	Log  lab.Log // of all its lives

	args  []string
	ready func() error

	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has been waited for
}

// Start starts the process and waits until it serves.
func (p *Process) Start() error {
	cmd, ended := exec.Command(p.args[0], p.args[1:]...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = &p.Log, &p.Log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.ended = cmd, ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
	if err := p.awaitReady(); err != nil {
		return fmt.Errorf("start %s: %w; its log ends\n%s", p.Name, err, p.tail())
	}
	return nil
}

// awaitReady asks a few times a second: each question takes processor time from the start it waits for.
func (p *Process) awaitReady() error {
	limit, tick := time.After(startLimit), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		err := p.ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New("it has ended")
		case <-limit:
			return fmt.Errorf("not ready within %v: %w", startLimit, err)
		case <-tick.C:
		}
	}
}

// Kill is kill -9, and waits for the end. It does nothing to what does not run.
func (p *Process) Kill() {
	if p.Running() {
		p.cmd.Process.Kill()
		<-p.ended
	}
}

// Restart is Kill and Start.
func (p *Process) Restart() error {
	p.Kill()
	return p.Start()
}

// Running reports whether the process lives.
func (p *Process) Running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// tail is the end of the log.
func (p *Process) tail() string {
	lines := strings.Split(strings.TrimSpace(p.Log.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
