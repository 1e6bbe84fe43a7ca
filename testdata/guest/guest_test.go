package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const fixtures = "./testdata/fixture/"

// built is this package's program: tests run it as its users do.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "guest-built-")
	if err != nil {
		panic(err)
	}
	built = filepath.Join(dir, "guest")
	if out, err := goTool(context.Background(), "build", "-o", built, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// guest runs the program and returns all it printed and its exit code.
func guest(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built, args...)
	cmd.Env = append(os.Environ(), "GREETING=from the host")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	t.Logf("guest %s: exit code %d after %v", strings.Join(args, " "), cmd.ProcessState.ExitCode(), time.Since(start).Round(time.Millisecond))
	return string(out), cmd.ProcessState.ExitCode()
}

// needMachine skips where a guest cannot be: the rest of this package's tests
// need no kernel but the one at hand.
func needMachine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a guest")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip(err, "(make guest)")
	}
	if _, err := cachedKernel(target{env("SVCPROXY_GUEST_SUITE", defaultSuite), "amd64"}); err != nil {
		t.Skip(err)
	}
	t.Parallel()
}

func wantLines(t *testing.T, out string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(out) {
			t.Errorf("no line like %q in:\n%s", p, out)
		}
	}
}

func TestKernelIsWhatSvcproxyNeeds(t *testing.T) {
	needMachine(t)
	if out, code := guest(t, "run", "--where=qemu", "--", "testdata/kernel.sh"); code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestGuestCannotWriteToHost(t *testing.T) {
	needMachine(t)
	host, results := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "kept"), []byte("host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(host, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := guest(t, "run", "--where=qemu", "--out", results, "--", "testdata/writes.sh", host)
	if code != 33 {
		t.Fatalf("exit code %d, want the command's 33:\n%s", code, out)
	}
	entries, err := os.ReadDir(host)
	if err != nil || len(entries) != 2 {
		t.Errorf("host's folder holds %v, %v; want folder and kept", entries, err)
	}
	for path, want := range map[string]string{filepath.Join(host, "kept"): "host\n", filepath.Join(results, "results/answer"): "42\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
		}
	}
	if _, err := os.Stat("/etc/guest-was-here"); err == nil {
		t.Error("a write to /etc reached the host")
	}
}

func TestGuestReachesServersOnTheHostsLoopback(t *testing.T) {
	needMachine(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "answered on the host") })}
	go server.Serve(l)
	defer server.Close()
	url := fmt.Sprintf("http://10.0.2.2:%d/", l.Addr().(*net.TCPAddr).Port)
	if out, code := guest(t, "run", "--net", "--", "curl", "-sS", url); code != 0 || out != "answered on the host\n" {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// What one guest with systemd has written is there in the next, and so is what
// its units wrote when it was shut down.
func TestSystemdBootsAndBootsAgain(t *testing.T) {
	needMachine(t)
	if dir, err := rootDir(target{env("SVCPROXY_GUEST_SUITE", defaultSuite), "amd64"}); err != nil {
		t.Fatal(err)
	} else if _, err := os.Stat(dir); err != nil {
		t.Skip(err, "(bin/guest root)")
	}
	args := []string{"run", "--systemd", "--keep", filepath.Join(t.TempDir(), "kept.tar"), "--", "sh", "-ec"}
	first := "test $(cat /proc/1/comm) = systemd; systemctl is-system-running --wait; rm /etc/issue; echo was here > /etc/guest; chown 7:8 /etc/guest; " +
		`systemd-run -qp ExecStop='/bin/sh -c "echo stopped >> /etc/guest"' sleep infinity; systemctl reboot; exit 33`
	if out, code := guest(t, append(args, first)...); code != 33 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if out, code := guest(t, append(args, "test ! -e /etc/issue; stat -c %u:%g /etc/guest; cat /etc/guest")...); code != 0 || out != "7:8\nwas here\nstopped\n" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// One boot for every way a package can end but the guest's own death.
func TestPackagesEndInTheGuest(t *testing.T) {
	needMachine(t)
	out, code := guest(t, "test", "--where=qemu", "-timeout=3s", "-grace=10s",
		fixtures+"fail", fixtures+"panic", fixtures+"hang", fixtures+"deaf", fixtures+"none", fixtures+"pass")
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	const pkg = "\tgithub.com/svcproxy/svcproxy/testdata/guest/testdata/fixture/"
	const seconds = `\t\d+\.\d{3}s$`
	wantLines(t, out,
		"fail_test.go:5: this test fails on purpose", "^FAIL"+pkg+"fail"+seconds,
		"^panic: assignment to entry in nil map", "^FAIL"+pkg+"panic"+seconds,
		"^panic: test timed out after 3s", `hang\.TestHang\(`, "^FAIL"+pkg+"hang"+seconds,
		"^SIGQUIT: quit", `deaf\.TestMain\(`, "^guest: test hung: no end within 13s", "^FAIL"+pkg+"deaf"+seconds,
		`^\?   `+pkg+`none\t\[no test files\]$`,
		"^ok  "+pkg+"pass"+seconds, "^FAIL$",
	)
}

func TestKernelPanicIsNoPass(t *testing.T) {
	needMachine(t)
	out, code := guest(t, "test", "--where=qemu", fixtures+"pass", fixtures+"crash", fixtures+"idle")
	if code != exitNoGuest {
		t.Errorf("exit code %d, want %d", code, exitNoGuest)
	}
	wantLines(t, out, `^ok  \t.*/pass\t`, "crash_test.go:.*: about to take the kernel down", `^FAIL\t.*/crash \[guest ended\]$`,
		`^FAIL\t.*/idle \[not run\]$`, "^FAIL$", "guest: kernel panic in the guest: sysrq triggered crash", "sysrq_handle_crash")
}

func TestNoBootIsNoPass(t *testing.T) {
	needMachine(t)
	out, code := guest(t, "test", "--where=qemu", "--append=rdinit=/nosuch", fixtures+"pass")
	if code != exitNoGuest {
		t.Errorf("exit code %d, want %d", code, exitNoGuest)
	}
	wantLines(t, out, `^FAIL\t.*/pass \[not run\]$`, "^FAIL$", "guest: kernel panic in the guest: VFS: Unable to mount root fs", "end of the guest's console")
}

func TestBootThatHangsIsNoPass(t *testing.T) {
	needMachine(t)
	out, code := guest(t, "run", "--where=qemu", "--append=rdinit=/nosuch panic=0", "--boot-limit=4s", "--", "true")
	if code != exitTimeout {
		t.Errorf("exit code %d, want %d", code, exitTimeout)
	}
	wantLines(t, out, "guest: .*the guest did not boot within 4s")
}

// go test's own way in: the binary is below its build folder, and it asks for a
// file that must come home.
func TestGoTestExec(t *testing.T) {
	needMachine(t)
	profile := filepath.Join(t.TempDir(), "cover")
	out, err := goTool(t.Context(), "test", "-count=1", "-v", "-exec", built+" run --where=qemu --", "-coverprofile="+profile, fixtures+"pass").CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	wantLines(t, string(out), "^--- PASS: TestPass", `^ok  \t.*/pass\t`)
	if b, err := os.ReadFile(profile); err != nil || !strings.HasPrefix(string(b), "mode: set\n") {
		t.Errorf("profile: %q, %v", b, err)
	}
}

func TestNativeNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("new namespaces need root")
	}
	t.Parallel()
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	const script = `set -ex; test "$SVCPROXY_GUEST" = 1; ip link show lo | grep LOWER_UP; test "$(readlink /proc/self/ns/net)" != "$1"; exit 33`
	if out, code := guest(t, "run", "--where=native", "--", "sh", "-c", script, "sh", here); code != 33 {
		t.Errorf("exit code %d, want the command's 33:\n%s", code, out)
	}
	if _, code := guest(t, "run", "--where=native", "--", "sh", "-c", "kill -TERM $$"); code != 128+15 {
		t.Errorf("exit code %d of a command ended by SIGTERM, want 143", code)
	}
	if out, code := guest(t, "run", "--where=native", "--limit=100ms", "--", "sleep", "1000"); code != exitTimeout {
		t.Errorf("exit code %d, want %d:\n%s", code, exitTimeout, out)
	}
}

func TestGuestThatHangsIsNoPass(t *testing.T) {
	needMachine(t)
	out, code := guest(t, "run", "--where=qemu", "--limit=5s", "--", "sleep", "1000")
	if code != exitTimeout {
		t.Errorf("exit code %d, want %d", code, exitTimeout)
	}
	wantLines(t, out, "guest: the guest did not end within 5s")
}
