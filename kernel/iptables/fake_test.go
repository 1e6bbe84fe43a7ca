package iptables

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// still is a stamp that a test changes.
type still struct {
	id    string
	names map[string][]string // of chains
}

func (s *still) read() (string, error)      { return s.id, nil }
func (s *still) present() ([]string, error) { return []string{"nat", "filter"}, nil }
func (s *still) Close() error               { return nil }

func (s *still) chains() (map[string][]string, error) { return s.names, nil }

// fake returns IPv4 Tables with a fake Run, without a kernel.
func fake(r Run) (*Tables, *still) {
	s := &still{id: "1"}
	tool := Tool{Name: "iptables", Version: "1.8.9", NFT: true}
	start := func(ctx context.Context, stdin string, argv ...string) Wait {
		var out string
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			out, err = r(ctx, stdin, argv...)
		}()
		return func() (string, error) { <-done; return out, err }
	}
	return &Tables{start: start, families: []*family{{Family: kernel.IPv4, tool: tool, stamp: s}}}, s
}

const emptySave = "*nat\nCOMMIT\n"

// script makes a tool that prints out, and returns a Find for it.
func script(t *testing.T, out string) Find {
	t.Helper()
	path := filepath.Join(t.TempDir(), "iptables")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nprintf '"+out+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return func(string) (string, error) { return path, nil }
}

// The library's regular expression, and its private field with the back end, read what releases of
// iptables print.
func TestProbe(t *testing.T) {
	for _, test := range []struct{ out, want string }{
		{"iptables v1.8.9 (nf_tables)\n", "iptables 1.8.9 (nf_tables)"},
		{"iptables v1.8.7 (legacy)\n", "iptables 1.8.7 (legacy)"},
		{"iptables v1.6.2\n", "iptables 1.6.2 (legacy)"},
		{"iptables v1.10.0 (nf_tables)\n", "iptables 1.10.0 (nf_tables)"},
		{"iptables v2.0.1-rc1\n", "iptables 2.0.1 (legacy)"},
		{"iptables v1.6.1\n", "iptables is 1.6.1, which cannot wait for the xtables lock: 1.6.2 is needed"},
		{"hello\n", "probing iptables: failed to extract iptables version from [hello\n]: no iptables version found in string: hello\n"},
	} {
		tool, err := probe(t.Context(), script(t, test.out), kernel.IPv4)
		got := tool.String()
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%q: got %q, want %q", test.out, got, test.want)
		}
	}
}

func TestMissing(t *testing.T) {
	_, err := Open(t.Context(), Options{Find: func(name string) (string, error) { return find("svcproxy-test-no-such-" + name) }})
	var missing *kernel.MissingError
	if !errors.As(err, &missing) || missing.Hint != "apt-get install iptables" {
		t.Fatalf("got %v, want a MissingError with the package", err)
	}
}

// run is Run for the tools in PATH.
var run = Find(find).run

// A tool that hangs is killed, and its outcome is unknown.
func TestHang(t *testing.T) {
	tt, _ := fake(func(ctx context.Context, stdin string, argv ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		return run(ctx, stdin, "sleep", "60")
	})
	start := time.Now()
	errs := tt.Apply(t.Context(), []kernel.Op{{Object: kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES"}}})
	if !errors.Is(errs[0], context.DeadlineExceeded) || !errors.Is(errs[0], kernel.ErrUnknownOutcome) {
		t.Errorf("Apply: %v", errs[0])
	}
	if _, err := tt.Read(t.Context(), kernel.DefaultNames); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

// A tool that runs counts as activity before it ends, so that the watchdog leaves it to its timeout.
func TestActivity(t *testing.T) {
	var tt Tables
	end := tt.active()
	for tt.Stats().Activity == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	before := tt.Stats().Activity
	end()
	if after := tt.Stats().Activity; after <= before {
		t.Errorf("%d at its end, %d before", after, before)
	}
}

// Tools run without a shell, in the C locale, with the given standard input.
func TestRun(t *testing.T) {
	out, err := run(t.Context(), "in", "sh", "-c", "cat; echo \" $LC_ALL $1\"", "sh", "a b;c")
	if err != nil || out != "in C a b;c\n" {
		t.Errorf("got %q, %v", out, err)
	}
	_, err = run(t.Context(), "", "sh", "-c", "echo 'line 3 failed' >&2; exit 4")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 4 || !strings.HasSuffix(err.Error(), "exit status 4: line 3 failed") {
		t.Errorf("got %v", err)
	}
	if _, err := run(t.Context(), "", "svcproxy-test-no-such"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// chain returns an op that adds a chain with one rule to a table.
func chain(table, name string) kernel.Op {
	return kernel.Op{Object: kernel.Chain{Family: kernel.IPv4, Table: table, Name: name, Rules: "-j RETURN"}}
}

// The message of iptables-restore decides which op gets which error. The input is
//
//	1 *nat, 2 :KUBE-SERVICES, 3 :KUBE-MARK-MASQ, 4 and 5 their rules, 6 COMMIT,
//	7 *filter, 8 :KUBE-FORWARD, 9 its rule, 10 COMMIT
func TestBlame(t *testing.T) {
	const ok, tool, rest, unknown = "", "exit status", "not carried out", "outcome unknown"
	for _, test := range []struct {
		stderr string
		want   [3]string
	}{
		{"iptables-restore: line 4 failed", [3]string{tool, rest, rest}},
		{"v1.8.9 (nf_tables): unknown option\nError occurred at line: 5\nTry `x -h'", [3]string{rest, tool, rest}},
		{"v1.8.9 (nf_tables): \nline 9: RULE_APPEND failed (Invalid argument): rule in chain KUBE-FORWARD", [3]string{ok, ok, tool}},
		{"iptables-restore: line 6 failed", [3]string{tool, tool, rest}}, // COMMIT
		{"iptables-restore: line 10 failed", [3]string{ok, ok, tool}},
		{"iptables-restore: line 99 failed", [3]string{unknown, unknown, unknown}},
		{"out of memory", [3]string{unknown, unknown, unknown}},
	} {
		tt, _ := fake(func(_ context.Context, _ string, argv ...string) (string, error) {
			return "", &ExitError{Argv: argv, Code: 1, Stderr: test.stderr}
		})
		errs := tt.Apply(t.Context(), []kernel.Op{chain("nat", "KUBE-SERVICES"), chain("nat", "KUBE-MARK-MASQ"), chain("filter", "KUBE-FORWARD")})
		for i, want := range test.want {
			got := ""
			if errs[i] != nil {
				got = errs[i].Error()
			}
			if want == ok && got != "" || !strings.Contains(got, want) || want == tool && strings.Contains(got, rest) {
				t.Errorf("%q: op %d has %q, want %q", test.stderr, i, got, want)
			}
		}
		if s := tt.Stats(); s.Writers != 1 {
			t.Errorf("%q: %d writers ran", test.stderr, s.Writers)
		}
	}
}

// Both families are written at once with the nft back end, and one after the other with the legacy one, whose tools would
// wait for each other's lock.
func TestFamiliesAtOnce(t *testing.T) {
	for _, nft := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tt, s := fake(func(context.Context, string, ...string) (string, error) {
				time.Sleep(time.Second)
				return "", nil
			})
			tt.families = append(tt.families, &family{Family: kernel.IPv6, tool: Tool{Name: "ip6tables"}, stamp: s})
			for _, f := range tt.families {
				f.tool.NFT = nft
			}
			six := chain("nat", "KUBE-SERVICES")
			six.Object = kernel.Chain{Family: kernel.IPv6, Table: "nat", Name: "KUBE-SERVICES"}
			want := 2 * time.Second
			if nft {
				want = time.Second
			}
			start := time.Now()
			errs := tt.Apply(t.Context(), []kernel.Op{chain("nat", "KUBE-SERVICES"), chain("filter", "KUBE-FORWARD"), six})
			if err := errors.Join(errs...); err != nil || time.Since(start) != want || tt.Stats().Writers != 2 {
				t.Errorf("nft %v: %d writers took %v, %v; want 2 and %v", nft, tt.Stats().Writers, time.Since(start), err, want)
			}
		})
	}
}

func TestUnfit(t *testing.T) {
	tt, _ := fake(func(context.Context, string, ...string) (string, error) {
		t.Error("a tool ran")
		return "", nil
	})
	errs := tt.Apply(t.Context(), []kernel.Op{
		{Object: kernel.Set{Name: "KUBE-CLUSTER-IP"}},
		{Object: kernel.Chain{Family: kernel.IPv4, Table: "mangle", Name: "KUBE-SERVICES"}},
		{Object: kernel.Chain{Family: kernel.IPv6, Table: "nat", Name: "KUBE-SERVICES"}},
	})
	for i, err := range errs {
		if err == nil {
			t.Errorf("op %d was carried out", i)
		}
	}
	var missing *kernel.MissingError
	if !errors.As(errs[2], &missing) {
		t.Errorf("no IPv6: %v", errs[2])
	}
}

// No tool runs while the kernel says that no rule changed. Tools run after a write, with other
// names, and after forget.
func TestCache(t *testing.T) {
	tt, s := fake(func(_ context.Context, _ string, argv ...string) (string, error) {
		if strings.HasSuffix(argv[0], "-restore") {
			return "", nil
		}
		return "*" + argv[2] + "\nCOMMIT\n", nil
	})
	names := kernel.DefaultNames
	for _, step := range []struct {
		name  string
		do    func()
		execs uint64
	}{
		{"first", func() {}, 2},
		{"idle", func() {}, 0},
		{"a rule changed", func() { s.id = "2" }, 2},
		{"other names", func() { names.Prefix = "LB" }, 2},
		{"after a write", func() { tt.Apply(t.Context(), []kernel.Op{chain("nat", "LB-SERVICES")}) }, 2},
		{"told to", tt.forget, 2},
		{"idle again", func() {}, 0},
	} {
		step.do()
		before := tt.Stats().Readers
		if _, err := tt.Read(t.Context(), names); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if n := tt.Stats().Readers - before; n != step.execs {
			t.Errorf("%s: %d execs, want %d", step.name, n, step.execs)
		}
	}
}

// If rules change during a reading, it is repeated. A reading that never was one state is not
// cached.
func TestMoving(t *testing.T) {
	var s *still
	move := 1 // number of disturbed readings
	tt, s := fake(func(context.Context, string, ...string) (string, error) {
		if move > 0 {
			s.id += "."
			move--
		}
		return emptySave, nil
	})
	if _, err := tt.Read(t.Context(), kernel.DefaultNames); err != nil || tt.Stats().Readers != 4 {
		t.Errorf("disturbed once: %d execs, %v; want 4", tt.Stats().Readers, err)
	}
	move = 100
	tt.forget()
	if _, err := tt.Read(t.Context(), kernel.DefaultNames); err != nil || tt.Stats().Readers != 4+2*tries {
		t.Errorf("disturbed always: %d execs, %v", tt.Stats().Readers, err)
	}
	move = 0
	if _, err := tt.Read(t.Context(), kernel.DefaultNames); err != nil || tt.Stats().Readers != 4+2*tries+2 {
		t.Errorf("quiet again: %d execs, %v", tt.Stats().Readers, err)
	}
}

// forget drops the last reading, so that the next Read runs iptables-save.
func (t *Tables) forget() {
	for _, f := range t.families {
		f.cached = false
	}
}
