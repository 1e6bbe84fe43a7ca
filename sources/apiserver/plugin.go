//go:build !noapiserver

package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/svcproxy/svcproxy/kernel/machine"
)

// Limits of an exec credential plugin. client-go itself has none: it lets a plugin run on after the source has ended,
// and keeps all of its output.
const (
	pluginOutput = 1 << 20 // bytes; a certificate, its key and a token have a few thousand
	pluginNoise  = 4 << 10 // bytes of its standard error that are passed on
)

// pluginTimeout bounds a run. It is a variable for the tests.
var pluginTimeout = 30 * time.Second

// credentialError is why there are no credentials.
type credentialError struct{ err error }

func (e *credentialError) Error() string { return "cannot get credentials: " + e.err.Error() }

func (e *credentialError) Unwrap() error { return e.err }

var (
	errPluginSlow = errors.New("still running")
	errPluginLoud = errors.New("too much output")
)

// execute runs a plugin with one more environment variable and returns its output. If ctx or the plugin's time ends,
// or it prints too much, execute kills its process group. The plugin does not inherit svcproxy's capabilities.
func execute(ctx context.Context, c *clientcmdapi.ExecConfig, variable string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(pluginTimeout, func() { cancel(errPluginSlow) }).Stop()

	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Command, c.Args...)
	cmd.Env = os.Environ()
	for _, v := range c.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, variable)
	cmd.Stdout = &capped{w: &out, left: pluginOutput, full: func() { cancel(errPluginLoud) }}
	cmd.Stderr = &capped{w: os.Stderr, left: pluginNoise}
	// Pdeathsig: the kernel kills the plugin when the thread that started it ends, so also if svcproxy is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	kill := func() error {
		if syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == syscall.ESRCH {
			return os.ErrProcessDone
		}
		return nil
	}
	cmd.Cancel = kill
	cmd.WaitDelay = time.Second // for a child of the plugin that keeps the output open
	err := machine.RunUnprivileged(cmd)
	if errors.Is(err, exec.ErrWaitDelay) {
		_, err = kill(), nil // the plugin itself has succeeded
	}
	if err != nil || ctx.Err() != nil {
		return nil, failure(c, context.Cause(ctx), err)
	}
	return out.Bytes(), nil
}

// failure is why a plugin returned no credentials.
func failure(c *clientcmdapi.ExecConfig, cause, err error) error {
	var missing *exec.Error
	var exit *exec.ExitError
	switch {
	case errors.Is(cause, errPluginSlow):
		return fmt.Errorf("exec plugin %s was still running after %s, and was killed", c.Command, pluginTimeout)
	case errors.Is(cause, errPluginLoud):
		return fmt.Errorf("exec plugin %s printed more than %d MiB, and was killed", c.Command, pluginOutput>>20)
	case cause != nil:
		return cause
	case errors.As(err, &missing) && c.InstallHint != "":
		return fmt.Errorf("exec plugin %s: %w: %s", c.Command, missing.Err, c.InstallHint)
	case errors.As(err, &missing):
		return fmt.Errorf("exec plugin %s: %w", c.Command, missing.Err)
	case errors.As(err, &exit):
		return fmt.Errorf("exec plugin %s failed: %s", c.Command, exit.ProcessState)
	}
	return fmt.Errorf("exec plugin %s: %w", c.Command, err)
}

// capped passes on what is written up to a limit, and drops the rest.
type capped struct {
	w    io.Writer
	left int
	full func() // nil = only drop
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if n > 0 {
		_, _ = c.w.Write(p[:n])
	}
	if n < len(p) && c.full != nil {
		c.full()
	}
	return len(p), nil
}
