package broken

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// services is a file with most of what one may hold.
const services = `# what is served
[services.web]
type = "LoadBalancer"
clusterIPs = ["10.96.0.20", "fd00:96::20"]
ports = [
  { name = "http",  port = 80,  targetPort = 8080, nodePort = 30080 },
  { name = "https", port = 443, targetPort = 8443, protocol = "TCP" },
]
loadBalancerIPs = ["198.51.100.80", { ip = "198.51.100.81", ipMode = "Proxy" }]
loadBalancerSourceRanges = ["10.0.0.0/8"]
sessionAffinity = "ClientIP"
sessionAffinityTimeout = "1h"
scheduler = "wlc"
endpoints = [
  "10.2.1.10",
  { address = "10.2.2.10", weight = 3, ready = true },
  { address = "10.2.3.10", ports = { http = 9080 } },
]

[services.dns]
clusterIP = "10.96.0.10"
ports = [ { name = "dns", port = 53, protocol = "UDP" }, { name = "dns-tcp", port = 53 } ]
endpoints = ["10.2.1.53", "10.2.2.53"]
`

// limit is how long any file may take, on a busy machine: in one second most of 50 MB are read.
const limit = 30 * time.Second

// mistake is one thing that a reader says of a file.
type mistake struct {
	line    int
	message string
}

// readers read a file's content, and say what is wrong with it.
var readers = map[string]struct {
	valid []byte
	read  func(name string, content []byte) []mistake
}{
	"services": {[]byte(services), func(name string, content []byte) (all []mistake) {
		table, _, problems := file.Decode(name, content)
		errs := sources.Validate(table)
		for _, p := range append(problems, errs...) {
			all = append(all, mistake{p.Origin.Line, p.Error()})
		}
		return all
	}},
	"configuration": {config.Default().TOML(), func(name string, content []byte) (all []mistake) {
		_, _, err := config.Decode(name, content, nil)
		var invalid *config.Error
		if errors.As(err, &invalid) {
			for _, p := range invalid.Problems {
				all = append(all, mistake{p.Origin.Line, p.Error()})
			}
		} else if err != nil {
			all = append(all, mistake{message: err.Error()})
		}
		return all
	}},
}

// mutations is how many are made of each valid file.
const mutations = 480

// TestEachIsReadOrRefused: an invalid file is refused quickly, with one line of text that names an
// existing line of the file.
func TestEachIsReadOrRefused(t *testing.T) {
	for what, r := range readers {
		t.Run(what, func(t *testing.T) {
			if m := r.read("f.toml", r.valid); len(m) > 0 {
				t.Fatal(m)
			}
			var refused int
			var slowest time.Duration
			for _, c := range Mutations(r.valid, mutations) {
				m, took := timed(t, r.read, c)
				refused += min(1, len(m))
				slowest = max(slowest, took)
			}
			if refused < 200 {
				t.Errorf("%d of %d mutations are refused", refused, mutations)
			}
			t.Logf("%d of %d mutations are refused, the slowest in %v", refused, mutations, slowest)
			for _, c := range ByHand(r.valid) {
				if m, _ := timed(t, r.read, c); len(m) == 0 {
					t.Errorf("%s is taken", c.Name)
				}
			}
		})
	}
}

// TestVast: what is far too large is refused before it costs minutes, or the node's memory.
func TestVast(t *testing.T) {
	var slowest time.Duration
	var slow string
	for c := range Vast() {
		m, took := timed(t, readers["services"].read, c)
		if c.Name == "unknown keys" { // each reader checks its keys itself; package fields checks the rest
			if m, _ := timed(t, readers["configuration"].read, c); len(m) == 0 || len(m) > 110 {
				t.Errorf("%d problems of %s in a configuration", len(m), c.Name)
			}
		}
		if len(m) == 0 {
			t.Errorf("%s is taken", c.Name)
		}
		if took > slowest {
			slowest, slow = took, c.Name
		}
	}
	t.Logf("the slowest was %s: %v", slow, slowest)
}

func timed(t *testing.T, read func(string, []byte) []mistake, c Case) ([]mistake, time.Duration) {
	t.Helper()
	begin := time.Now()
	done := make(chan []mistake, 1)
	go func() { done <- read("f.toml", c.Content) }()
	var all []mistake
	select {
	case all = <-done:
	case <-time.After(limit):
		t.Fatalf("%s: not done after %v", c.Name, limit)
	}
	took := time.Since(begin)
	lines := 1 + bytes.Count(c.Content, []byte("\n"))
	for _, m := range all {
		if m.line < 1 || m.line > lines || !strings.HasPrefix(m.message, fmt.Sprintf("f.toml:%d: ", m.line)) || strings.ContainsAny(m.message, "\n\x00\x1b") {
			t.Errorf("%s, of %d lines: line %d, %q", c.Name, lines, m.line, m.message)
		}
	}
	return all, took
}

// binary is what `make build` makes.
const binary = "../../bin/svcproxy"

// TestCheck: the command finds the same, says which file, and exits with 3, or with 5 where it may not
// read; nothing keeps it waiting.
func TestCheck(t *testing.T) {
	program, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("no svcproxy to test, `make build` makes it: %v", err)
	}
	for what, r := range readers {
		t.Run(what, func(t *testing.T) {
			var ways []Place
			for _, c := range append(Mutations(r.valid, mutations/2), ByHand(r.valid)...) {
				if len(r.read("f.toml", c.Content)) == 0 {
					continue
				}
				ways = append(ways, Place{c.Name, func(path string) error { return os.WriteFile(path, c.Content, 0o644) }})
			}
			ways = append(ways, Places()...)
			begin := time.Now()
			for _, w := range ways {
				dir := t.TempDir()
				path := filepath.Join(dir, "f.toml")
				if err := w.Make(path); err != nil {
					t.Fatal(w.Name, err)
				}
				args := []string{"--config", path}
				if what == "services" {
					empty := filepath.Join(dir, "empty")
					if err := os.WriteFile(empty, nil, 0o644); err != nil {
						t.Fatal(err)
					}
					args = []string{"--config", empty, path}
				}
				code, out := check(t, nil, program, args...)
				if code != 3 && code != 5 || !strings.Contains(out, path) {
					t.Errorf("%s: exit code %d: %.300s", w.Name, code, out)
				}
				os.RemoveAll(dir)
			}
			t.Logf("%d ways in %v", len(ways), time.Since(begin))
		})
	}
}

// check runs the command, as another user if one is given.
func check(t *testing.T, user *syscall.Credential, program string, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"check"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("check %v: %v", args, errors.Join(err, ctx.Err()))
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return code, string(text)
}

// TestNoPermission: who may not read a file is told so.
func TestNoPermission(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give it up")
	}
	// Others may look into neither the tree nor, as it is made, a test's folder.
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "svcproxy")
	if out, err := exec.Command("install", "-m", "755", binary, program).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	path := filepath.Join(dir, "f.toml")
	if err := os.WriteFile(path, []byte(services), 0o000); err != nil {
		t.Fatal(err)
	}
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	for _, args := range [][]string{{path}, {"--config", path}} {
		code, out := check(t, nobody, program, args...)
		if code != 3 && code != 5 || !strings.Contains(out, path) || !strings.Contains(out, "permission denied") {
			t.Errorf("check %v: exit code %d: %s", args, code, out)
		}
	}
}
