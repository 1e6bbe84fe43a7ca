package config_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
)

// node is a machine with a configuration file, over several runs of a process.
type node struct {
	*testing.T
	file, stateDir string
	log            strings.Builder
	logged         func(line string) // nil: nothing is done with a line
	*config.Current
	changes int
	keeper  statefile.Keeper
}

func newNode(t *testing.T) *node {
	dir := t.TempDir()
	n := &node{T: t, file: filepath.Join(dir, "svcproxy.toml"), stateDir: filepath.Join(dir, "state")}
	n.keeper.Said = func(file string, err error) { fmt.Fprintf(n, "kept %s: %v\n", file, err) }
	return n
}

// write saves a configuration. STATE stands for the node's stateDir.
func (n *node) write(text string) {
	n.Helper()
	if err := os.WriteFile(n.file, []byte(strings.ReplaceAll(text, "STATE", n.stateDir)), 0o644); err != nil {
		n.Fatal(err)
	}
}

// Write takes a line of the log.
func (n *node) Write(line []byte) (int, error) {
	if n.logged != nil {
		n.logged(string(line))
	}
	return n.log.Write(line)
}

// start starts a process.
func (n *node) start(flags ...string) error {
	fs := pflag.NewFlagSet("svcproxy", pflag.ContinueOnError)
	f := config.AddFlags(fs)
	if err := fs.Parse(append(flags, "--config", n.file)); err != nil {
		return err
	}
	n.log.Reset()
	n.changes = 0
	var err error
	n.Current, err = config.Start(config.Options{
		Flags: f, Log: slog.New(slog.NewTextHandler(n, nil)), Keeper: &n.keeper,
		Changed: func(was, now *config.Setup) { n.changes++ },
		Fits: func(c config.Config) error {
			if c.IPVS.Scheduler == "twos" {
				return errors.New("no scheduler twos")
			}
			return nil
		},
	})
	if err == nil {
		n.Announce()
		n.Keep()
	}
	return err
}

// emitted is the number of services and the error that the source emits.
func (n *node) emitted() (services int, err error) {
	ctx, cancel := context.WithCancel(n.Context())
	_ = n.Source().Watch(ctx, func(t sources.Table, e error) {
		services, err = t.Services.Len(), e
		cancel()
	})
	return services, err
}

const good = `stateDir = "STATE"
[ipvs]
scheduler = "wrr"
[services.web]
clusterIP = "10.96.0.1"
ports = [ { port = 80 } ]
`

func (n *node) serves(what string) {
	n.Helper()
	if s := n.Now(); s.Config.IPVS.Scheduler != "wrr" || s.Static.Services.Len() != 1 {
		n.Errorf("%s: scheduler %s, %d services", what, s.Config.IPVS.Scheduler, s.Static.Services.Len())
	}
}

func TestReloadIsWholeOrNothing(t *testing.T) {
	n := newNode(t)
	n.write(good)
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{strings.Replace(good, "scheduler", "sheduler", 1), `svcproxy.toml:3: unknown key "ipvs.sheduler"`},
		{strings.Replace(good, "10.96.0.1", "10.96.0", 1), `svcproxy.toml:5: web: clusterIP`},
		{good + "[ipvs", "svcproxy.toml:7"},
		{"", "is empty and had a configuration"},
		{strings.Replace(good, "wrr", "twos", 1), "no scheduler twos"},
	} {
		n.write(c.text)
		_, err := n.Reload()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
		n.serves(c.want)
		services, said := n.emitted()
		if services != 1 || said == nil || said.Error() != err.Error() {
			t.Errorf("%q: source has %d services and says %v", c.text, services, said)
		}
	}
	if n.changes != 0 {
		t.Errorf("%d changes of what was refused", n.changes)
	}
	n.write(strings.Replace(good, `"wrr"`, `"wrr"`+"\nsyncPeriod = \"7s\"", 1))
	if _, err := n.Reload(); err != nil || n.changes != 1 || n.Now().Config.IPVS.SyncPeriod != 7*time.Second {
		t.Errorf("put right: %v, %d changes, %v", err, n.changes, n.Now().Config.IPVS.SyncPeriod)
	}
	if _, err := n.emitted(); err != nil {
		t.Errorf("put right, and the source says %v", err)
	}
	if _, err := n.Reload(); err != nil || n.changes != 1 {
		t.Errorf("nothing new: %v, %d changes", err, n.changes)
	}
	if !strings.Contains(n.log.String(), `msg=configured key=ipvs.syncPeriod from="\"30s\"" to="\"7s\""`) {
		t.Error(n.log.String())
	}
}

func TestAKeyThatNeedsARestartKeepsItsValue(t *testing.T) {
	n := newNode(t)
	n.write(good)
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	n.write("hostnameOverride = \"other\"\n" + good + "[logging]\nverbosity = 4\n")
	kept, err := n.Reload()
	if err != nil || fmt.Sprint(kept) != `[hostnameOverride = "other", running with ""]` {
		t.Error(kept, err)
	}
	if c := n.Now().Config; c.HostnameOverride != "" || c.Logging.Verbosity != 4 {
		t.Error(c)
	}
}

func TestLastGoodIsUsedAtStart(t *testing.T) {
	for name, broken := range map[string]string{
		"unknown key": "stateDir = \"STATE\"\nfrob = 1\n",
		"cut":         "stateDir = \"STATE\"\n[ipv",
		"services":    "stateDir = \"STATE\"\n[services.web]\nclusterIP = \"127.0.0.1\"\nports = [ { port = 80 } ]\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.write(broken)
			if err := n.start(); err == nil {
				t.Fatal("broken from the first start, and started")
			}
			n.write(good)
			if err := n.start(); err != nil {
				t.Fatal(err)
			}
			n.write(broken)
			if err := n.start(); err != nil {
				t.Fatal(err)
			}
			n.serves(name)
			services, err := n.emitted()
			var rejected *sources.RejectedError
			if services != 1 || !errors.As(err, &rejected) || len(rejected.Stale) != 1 || rejected.Stale[0].Path != n.file {
				t.Errorf("source has %d services and says %+v", services, err)
			}
			if !strings.Contains(n.log.String(), "level=ERROR") {
				t.Error("not said aloud:", n.log.String())
			}
			// What is refused does not become the last good, whatever is asked.
			n.Keep()
			if err := n.start(); err != nil {
				t.Error(err)
			}
			n.write(good)
			if _, err := n.Reload(); err != nil {
				t.Error(err)
			}
			if _, err := n.emitted(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A start accepts a file of comments. A reload refuses a named file that is gone.
func TestAFileThatIsGoneOrEmptyAtStart(t *testing.T) {
	n := newNode(t)
	n.write("# nothing but a word\n")
	if err := n.start(); err != nil {
		t.Fatal("a comment:", err)
	}
	if err := os.Remove(n.file); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Reload(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error("a named file that is gone:", err)
	}
}

// When a disk that was full or read-only is well, the content is kept without another change.
func TestStateDirThatCannotBeWritten(t *testing.T) {
	n := newNode(t)
	n.write(good)
	if err := os.WriteFile(n.stateDir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	n.serves("a file in the place of stateDir")
	for _, text := range []string{good, good + "# edited\n", good} {
		n.write(text)
		if _, err := n.Reload(); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(n.log.String(), "a broken file would stop the next start") != 3 { // at the start and after two changes
		t.Error(n.log.String())
	}
	if err := os.Remove(n.stateDir); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 25*time.Second)
		defer stop()
		n.keeper.Run(ctx)
		synctest.Wait()
	})
	if kept, _, ok, err := config.LastGood(n.stateDir).Get(n.file); !ok || string(kept) != string(n.Now().Data) {
		t.Errorf("kept %q, %v", kept, err)
	}
	if strings.Count(n.log.String(), "kept last-good: <nil>") != 1 || n.changes != 2 {
		t.Errorf("%d changes: %s", n.changes, n.log.String())
	}
}

// While a copy is written, status and metrics have their answers.
func TestStandingDoesNotWaitForTheDisk(t *testing.T) {
	n := newNode(t)
	n.write(good)
	if err := os.WriteFile(n.stateDir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	asked, answered := make(chan struct{}), make(chan struct{})
	n.logged = func(line string) {
		if n.changes > 0 && strings.Contains(line, "would stop the next start") {
			close(asked) // in the middle of Keep
			<-answered
		}
	}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(n.stateDir); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(n.stateDir), os.WriteFile(n.stateDir, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	n.write(good + "# edited\n")
	done := make(chan error, 1)
	go func() {
		_, err := n.Reload()
		done <- err
	}()
	<-asked
	standing := make(chan config.Standing)
	go func() { standing <- n.Standing() }()
	select {
	case s := <-standing:
		if s.Refused != nil {
			t.Error(s)
		}
	case <-time.After(10 * time.Second):
		t.Error("Standing waits for the disk")
	}
	close(answered)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A file that could not be read for a reason that may pass is read again soon, without an event.
func TestReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.write(good)
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		whole := n.file + ".whole"
		if err := errors.Join(os.Rename(n.file, whole), os.Symlink("/proc/self/mem", n.file)); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Reload(); err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(n.file), os.Rename(whole, n.file)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		config.Poll(n.Current, ctx)
		if err := n.Standing().Refused; err != nil {
			t.Error(err)
		}
	})
}

func TestWrongFlagsAreNotHealedByTheLastGood(t *testing.T) {
	n := newNode(t)
	n.write(good)
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if err := n.start("--ipvs-scheduler", "frob"); err == nil || !strings.Contains(err.Error(), "--ipvs-scheduler") {
		t.Error(err)
	}
}
