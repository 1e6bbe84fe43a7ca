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

// stopLimit is how long a process may take to end. kube-apiserver takes leave of its watchers first.
const stopLimit = 30 * time.Second

// A Process is a server that can be stopped, killed and started again with the same arguments.
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

// Kill is kill -9, and waits for the end.
func (p *Process) Kill() error { return p.signal(unix.SIGKILL) }

// Stop asks the process to end and waits until it has.
func (p *Process) Stop() error { return p.signal(unix.SIGTERM) }

// Restart is Kill and Start.
func (p *Process) Restart() error {
	if err := p.Kill(); err != nil {
		return err
	}
	return p.Start()
}

// Running says whether the process lives.
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

func (p *Process) signal(s unix.Signal) error {
	if !p.Running() {
		return nil
	}
	p.cmd.Process.Signal(s)
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopLimit):
		p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %v of %v", p.Name, stopLimit, s)
	}
}

// tail is the end of the log.
func (p *Process) tail() string {
	lines := strings.Split(strings.TrimSpace(p.Log.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
