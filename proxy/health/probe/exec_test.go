package probe

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// shell returns an exec probe of a program of which root owns every part of the path.
func shell(script string) sources.Probe {
	return sources.Probe{Type: sources.CheckExec, Command: "/bin/sh", Args: "-c\x00" + script}
}

func TestExec(t *testing.T) {
	target := closed(t)
	env := shell(`echo "$SVCPROXY_SERVICE $SVCPROXY_ADDRESS $SVCPROXY_PORT $SVCPROXY_WEIGHT $HOME $(pwd)"`)
	expect(t, "ok: web 127.0.0.1 "+strconv.Itoa(int(target.Port()))+" 3  /", env, target)
	expect(t, "exec 1: broken", shell("echo broken >&2; exit 1"), target)
	for code, percent := range map[int]int{2: 0, 52: 50, 102: 100, 255: 253} {
		r := expect(t, "ok", shell("exit "+strconv.Itoa(code)), target)
		if !r.HasPercent || r.Percent != percent {
			t.Errorf("exit %d: %d %% %v", code, r.Percent, r.HasPercent)
		}
	}
	if r := expect(t, "ok", shell("exit 0"), target); r.HasPercent {
		t.Errorf("exit 0: %d %%", r.Percent)
	}
	strict := shell("exit 52")
	strict.OnlyZero = true
	expect(t, "exec 52", strict, target)
	args := shell(`echo "$1 $2"`)
	args.Args += "\x00sh\x00[$SVCPROXY_ADDRESS]:$SVCPROXY_PORT\x00$SVCPROXY_NONE"
	expect(t, "ok: [127.0.0.1]:"+strconv.Itoa(int(target.Port()))+" $SVCPROXY_NONE", args, target)
	expect(t, "exec 143: killed by signal: terminated", shell("kill -TERM $$"), target)
	expect(t, "void: fork/exec...", sources.Probe{Type: sources.CheckExec, Command: "/bin/sh", Args: strings.Repeat("x", 1<<20)}, target)
}

// A program that cannot be started as health.execUser says what the unit lacks. The whole text is shown.
func TestStartError(t *testing.T) {
	refused := &fs.PathError{Op: "fork/exec", Path: "/bin/sh", Err: syscall.EPERM}
	nobody := &syscall.Credential{Uid: math.MaxUint32}
	const want = "health.execUser: svcproxy may not become user 4294967295: it lacks CAP_SETUID, see svcproxy.toml(5)"
	if got := result(Void, startError(refused, nobody).Error()).Detail; got != want {
		t.Errorf("%q", got)
	}
	if got := startError(refused, nil); got != refused {
		t.Errorf("without another user: %v", got)
	}
	missing := &fs.PathError{Op: "fork/exec", Path: "/bin/sh", Err: syscall.EACCES}
	if got := startError(missing, nobody); got != missing {
		t.Errorf("a program that may not be run: %v", got)
	}
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(after, "Z")
}

// gone waits until the process whose number is in a file has ended.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d lives on", pid)
		}
	}
}

func TestHostileExec(t *testing.T) {
	target, file := closed(t), filepath.Join(t.TempDir(), "pid")
	within := func(limit time.Duration, script string) sources.Probe {
		p := shell(script)
		p.Timeout = limit
		return p
	}
	child := "sleep 100 & echo $! >" + file
	r := expect(t, "timeout", within(5*time.Second, child+"; wait"), target)
	if r.Duration > 20*time.Second {
		t.Errorf("took %v", r.Duration)
	}
	gone(t, file)
	// The program ends, its child holds the pipe.
	expect(t, "ok", shell(child), target)
	gone(t, file)
	expect(t, "timeout", within(time.Second, "trap '' TERM INT HUP; while :; do :; done"), target)
	expect(t, "timeout: yyyy...", within(5*time.Second, "yes yyyyyyyy"), target)
	// A child outside of the process group is not killed, and does not hold up the probe.
	start := time.Now()
	expect(t, "ok", shell("setsid sh -c 'echo $$ >"+file+"; exec sleep 20' & while ! [ -s "+file+" ]; do :; done"), target)
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	if text, err := os.ReadFile(file); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// TestExecThatCannotBeKilled: the result does not wait for a program that outlives its kill. Here a tracer keeps it from
// being reaped, as the kernel keeps one that waits for a broken disk.
func TestExecThatCannotBeKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	what := shell("echo $$ >" + file + "; exec sleep 100")
	what.Timeout = time.Minute
	ctx, kill := context.WithCancel(t.Context())
	a := (&Prober{ExecDirs: []string{"/bin"}}).attempt(ctx, &what, closed(t), Meta{})
	results := make(chan Result, 1)
	go func() { results <- a.exec() }()
	pid := ""
	for end := time.Now().Add(10 * time.Second); pid == ""; time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(file)
		if pid = strings.TrimSpace(string(text)); time.Now().After(end) {
			t.Fatal("the program has not started")
		}
	}
	out, tracer := child(t, "tracer "+pid)
	if line := readChild(t, out); line != "traced" {
		t.Skip("this process may not trace others: " + line)
	}
	kill()
	select {
	case r := <-results:
		if r.Outcome != Timeout || r.unended == nil || within(100*time.Millisecond, r.unended) {
			t.Fatalf("%+v while the program goes on", r)
		}
		tracer.Kill()
		if !within(10*time.Second, r.unended) {
			t.Error("the program has ended, and is not reaped")
		}
	case <-time.After(20 * time.Second):
		t.Error("no result while the program goes on")
	}
}
