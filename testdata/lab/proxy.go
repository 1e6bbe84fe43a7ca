package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Proxy is svcproxy on a node, run from a folder with everything of its own.
type Proxy struct {
	Node   *Host
	Binary string
	Dir    string // svcproxy.toml, services.toml, services.d, state, run
	File   string // the configuration that svcproxy is given; svcproxy.toml by default
	// Configure writes these, unless it is given others.
	Mode     string
	Defaults map[string]string // by key
	Log      Log               // what it has written, over all its starts

	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has been waited for
}

// NewProxy prepares a folder for svcproxy: main is what svcproxy.toml says
// besides where its files are, dotted keys without a table before them.
func NewProxy(node *Host, binary, dir, main string) (*Proxy, error) {
	p := &Proxy{Node: node, Binary: binary, Dir: dir, File: filepath.Join(dir, "svcproxy.toml")}
	if err := os.MkdirAll(p.path("services.d"), 0o755); err != nil {
		return nil, err
	}
	return p, p.Configure(main)
}

func (p *Proxy) path(name string) string { return filepath.Join(p.Dir, name) }

// Configure rewrites svcproxy.toml; a running svcproxy adopts it. Its listeners are off,
// unless main has their addresses; other keys are as Defaults has them. In another mode
// than ipvs, what main says of ipvs.syncPeriod is said of iptables.syncPeriod.
func (p *Proxy) Configure(main string) error {
	if p.Mode != "" && p.Mode != "ipvs" {
		main = strings.ReplaceAll(main, "ipvs.syncPeriod", "iptables.syncPeriod")
	}
	defaults := map[string]string{"healthzBindAddress": "", "metricsBindAddress": ""}
	maps.Copy(defaults, p.Defaults)
	if p.Mode != "" {
		defaults["mode"] = p.Mode
	}
	for key, value := range defaults {
		if !slices.ContainsFunc(strings.Split(main, "\n"), func(line string) bool { return strings.HasPrefix(line, key+" = ") }) {
			main = fmt.Sprintf("%s = %q\n%s", key, value, main)
		}
	}
	return p.save("svcproxy.toml", fmt.Sprintf("sources.file.paths = [%q, %q]\nstateDir = %q\nruntimeDir = %q\n%s\n",
		p.path("services.toml"), p.path("services.d/*.toml"), p.path("state"), p.path("run"), main))
}

// save replaces services.toml, or a file below services.d, the safe way: it
// writes a new file and renames it. The file looks as if it had been written a
// moment ago, as from an editor: see the guard in sources/file.
func (p *Proxy) save(name, content string) error {
	whole, written := p.path(name)+".new", time.Now().Add(-50*time.Millisecond)
	if err := os.WriteFile(whole, []byte(content), 0o644); err != nil {
		return err
	}
	if err := os.Chtimes(whole, written, written); err != nil {
		return err
	}
	return os.Rename(whole, p.path(name))
}

// Serve saves services.toml.
func (p *Proxy) Serve(services string) error { return p.save("services.toml", services) }

// Start starts `svcproxy run`, as an argument of wrap if there is any.
func (p *Proxy) Start(wrap ...string) error {
	args := append(wrap, p.Binary, "run", "--config", p.File)
	cmd, ended := exec.Command(args[0], args[1:]...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = &p.Log, &p.Log
	if err := p.Node.Start(cmd); err != nil {
		return fmt.Errorf("start svcproxy: %w", err)
	}
	p.cmd, p.ended = cmd, ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return nil
}

// Ended is closed when the started process has ended.
func (p *Proxy) Ended() <-chan struct{} { return p.ended }

// ExitCode is that of the process that ended, -1 if a signal ended it.
func (p *Proxy) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Pid is the running process.
func (p *Proxy) Pid() int { return p.cmd.Process.Pid }

// Running reports whether the process was started and has not ended.
func (p *Proxy) Running() bool {
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

// Kill is kill -9, and waits for the end.
func (p *Proxy) Kill() { p.signal(unix.SIGKILL) }

// Stop asks the process to end and returns how it did.
func (p *Proxy) Stop() error {
	if !p.signal(unix.SIGTERM) {
		return nil
	}
	if code := p.ExitCode(); code != 0 {
		return fmt.Errorf("svcproxy stopped with exit code %d; its log:\n%s", code, p.Log.String())
	}
	return nil
}

// signal says whether there was anything to signal.
func (p *Proxy) signal(s unix.Signal) bool {
	if !p.Running() {
		return false
	}
	p.cmd.Process.Signal(s)
	select {
	case <-p.ended:
	case <-time.After(toolLimit):
		p.cmd.Process.Kill()
		<-p.ended
	}
	return true
}

// Synced matches the log line of a sync that changed something and left
// everything served. It does not match a sync with failures, or one that waits
// for a source.
const Synced = `msg=synced .*` + tookAll

// SyncedTable is Synced of a sync for a changed table. One for a new svcproxy.toml, for example, may end before it.
const SyncedTable = `msg=synced cause=table .*` + tookAll

// tookAll ends the line of a sync without failures that waits for nothing.
const tookAll = ` took=\S+( bound=\d+ routed=\d+)?$`

// Wait waits for a line of the log written after the mark that matches the
// regular expression, and no longer than the process lives.
func (p *Proxy) Wait(mark int, expression string) (string, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-p.ended:
			cancel(errors.New("svcproxy has ended"))
		case <-time.After(toolLimit):
			cancel(fmt.Errorf("%v were not enough", toolLimit))
		case <-ctx.Done():
		}
	}()
	return p.Log.Wait(ctx, mark, expression)
}

// Command runs another svcproxy command with this configuration and returns its
// output, standard error after standard output, and its exit code.
func (p *Proxy) Command(command string, args ...string) (string, int, error) {
	args = append([]string{command, "--config", p.File}, args...)
	out, err := p.Node.Run(p.Binary, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out + err.Error(), exit.ExitCode(), nil
	}
	return strings.TrimSpace(out), 0, err
}
