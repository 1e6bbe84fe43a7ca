package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/commands"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"svcproxy": main})
}

// TestScripts runs testdata/script/*.txtar: output and exit code of the whole program. A
// script that needs root, or a kernel with or without IPVS, has a condition.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "expand": expand},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "ipvs":
				_, err := os.Stat("/proc/net/ip_vs")
				return err == nil, nil
			}
			return false, errors.New("unknown condition " + name)
		},
	})
}

// TestSecondSignal: the first signal ends a command's context, which a read of standard input does not heed. The second
// one ends the process.
func TestSecondSignal(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "import", "-")
	cmd.Args[0] = "svcproxy" // TestMain runs main for this name
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.Write(make([]byte, 1<<20)); err != nil { // more than a pipe holds: svcproxy reads
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for patience := time.After(20 * time.Second); ; {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v, want signal SIGTERM", err)
			}
			return
		case <-tick.C:
			cmd.Process.Signal(syscall.SIGTERM)
		case <-patience:
			cmd.Process.Kill()
			t.Fatal("signals do not end it")
		}
	}
}

// exits is exec that wants an exit code: exits 3 svcproxy check.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// expand replaces $VARIABLES in files by their values: expand FILE...
func expand(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}

// TestExamples wants an example of each command, with flags that it has.
func TestExamples(t *testing.T) {
	p := program(&commands.Env{})
	for _, c := range p.Visible() {
		if len(c.Examples) == 0 {
			t.Errorf("svcproxy %s has no example", c.Name)
		}
		for _, e := range c.Examples {
			argv, ours := strings.CutPrefix(strings.ReplaceAll(e, "'", ""), "svcproxy "+c.Name)
			if err := p.FlagSet(c).Parse(strings.Fields(argv)); err != nil || !ours {
				t.Errorf("example of %s: %s: %v", c.Name, e, err)
			}
		}
	}
}

// TestHelpIsShort holds the help of each command to a screen, with the command's own
// flags before the common ones and without those of kube-proxy.
func TestHelpIsShort(t *testing.T) {
	p := program(&commands.Env{})
	for _, topic := range append(p.Commands, cli.Command{}) {
		var out strings.Builder
		argv := []string{topic.Name, "--help"}
		if topic.Name == "" {
			argv = argv[1:]
		}
		if err := p.Run(t.Context(), argv, &out); err != nil {
			t.Fatal(err)
		}
		text, limit := out.String(), 36
		if topic.Name == "" {
			limit = 35 // it has a line for each command
		}
		if lines := strings.Count(text, "\n"); lines > limit {
			t.Errorf("svcproxy %s has %d lines, want %d at most:\n%s", strings.Join(argv, " "), lines, limit, text)
		}
		for line := range strings.Lines(text) {
			if len(line) > 101 {
				t.Errorf("svcproxy %s has a line of %d columns: %s", strings.Join(argv, " "), len(line)-1, line)
			}
		}
		common := strings.Index(text, "\nCommon flags:\n")
		if topic.Flags == nil {
			continue
		}
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		topic.Flags(own)
		own.VisitAll(func(f *pflag.Flag) {
			if i := strings.Index(text, "--"+f.Name); i < 0 || common >= 0 && i > common {
				t.Errorf("the help of %s does not have --%s first", topic.Name, f.Name)
			}
		})
		if strings.Contains(text, "--ipvs-scheduler") {
			t.Errorf("the help of %s has the flags of kube-proxy", topic.Name)
		}
	}
	var out strings.Builder
	if err := p.Help(&out, []string{"flags"}); err != nil {
		t.Fatal(err)
	}
	p.FlagSet(cli.Command{}).VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !strings.Contains(out.String(), "--"+f.Name) {
			t.Errorf("svcproxy help flags has no --%s", f.Name)
		}
	})
}

const module = "github.com/svcproxy/svcproxy"

// mayImport lists the packages of this project that each package may import, from top to
// bottom: imports point down only. A package that is not listed may import none of them.
var mayImport = map[string][]string{
	// The command line.
	"":               {"kernel/machine", "proxy/cli", "proxy/commands", "sources/fields"},
	"proxy/commands": {"kernel", "kernel/host", "kernel/machine", "kernel/packet", "kernel/plan", "kernel/statefile", "packaging/docs", "proxy", "proxy/announce", "proxy/cli", "proxy/config", "proxy/control", "proxy/daemon", "proxy/doctor", "proxy/events", "proxy/explain", "proxy/frontend", "proxy/health", "proxy/health/checker", "proxy/health/probe", "proxy/mode", "proxy/report", "proxy/screen", "proxy/status", "sources", "sources/apiserver", "sources/convert", "sources/dns", "sources/file", "sources/manifest", "sources/redact"},

	// The running process.
	"proxy/daemon":   {"kernel", "kernel/conntrack", "kernel/host", "kernel/machine", "kernel/nl", "kernel/relay", "kernel/statefile", "proxy", "proxy/announce", "proxy/answers", "proxy/cli", "proxy/condition", "proxy/config", "proxy/control", "proxy/events", "proxy/explain", "proxy/frontend", "proxy/health", "proxy/health/checker", "proxy/health/probe", "proxy/hooks", "proxy/metrics", "proxy/mode", "proxy/mode/iptables", "proxy/mode/ipvs", "proxy/mode/nftables", "proxy/mode/userspace", "proxy/status", "proxy/web", "sources", "sources/apiserver", "sources/dns", "sources/file", "sources/manifest"},
	"packaging/docs": {"proxy/cli", "proxy/config", "sources/fields", "sources/file"},

	// What shows its state, and what asks it.
	"proxy/control": {"kernel/statefile", "proxy/cli", "proxy/events", "proxy/explain", "proxy/health", "proxy/status", "proxy/web", "sources", "sources/file"},
	"proxy/hooks":   {"kernel/machine", "proxy/events"},
	"proxy/web":     {"proxy/events", "proxy/frontend", "proxy/screen", "proxy/status", "sources"},
	"proxy/doctor":  {"kernel", "kernel/machine", "kernel/packet", "proxy/condition", "proxy/frontend", "proxy/status", "sources"},
	"proxy/report":  {"sources/fields", "sources/redact"},
	"proxy/explain": {"kernel", "kernel/packet", "proxy/frontend", "proxy/screen", "sources"},
	"proxy/metrics": {"kernel", "proxy", "proxy/condition", "proxy/frontend", "proxy/health", "proxy/status", "sources"},
	"proxy/status":  {"kernel", "proxy", "proxy/announce", "proxy/condition", "proxy/frontend", "proxy/health", "proxy/screen", "sources"},
	"proxy/events":  {"kernel", "kernel/statefile", "proxy", "proxy/announce", "proxy/condition", "proxy/health", "proxy/screen", "sources"},

	// The loop, and the configuration.
	"proxy":        {"kernel", "kernel/packet", "kernel/plan", "proxy/announce", "proxy/condition", "proxy/frontend", "sources"},
	"proxy/config": {"kernel", "kernel/statefile", "proxy/announce", "proxy/cli", "proxy/frontend", "proxy/mode", "sources", "sources/fields", "sources/file"},

	// From a table to the wanted state: pure.
	"proxy/mode/iptables":  {"kernel", "proxy/frontend", "proxy/mode", "sources"},
	"proxy/mode/nftables":  {"kernel", "proxy/frontend", "proxy/mode", "sources"},
	"proxy/mode/ipvs":      {"kernel", "proxy/frontend", "proxy/mode", "sources"},
	"proxy/mode/userspace": {"kernel", "proxy/frontend", "proxy/mode", "sources"},
	"proxy/mode":           {"kernel", "proxy/frontend", "sources"},
	"proxy/announce":       {"kernel", "proxy/frontend", "sources"},
	"proxy/frontend":       {"kernel", "sources"},

	// Health checks: what a probe is; the rest is pure.
	"proxy/health":       {"kernel", "sources"},
	"proxy/health/probe": {"kernel/link", "kernel/machine", "sources"},

	// The checker joins the two, and reads from rules what was up before a restart.
	"proxy/health/checker": {"kernel", "kernel/plan", "kernel/statefile", "proxy/condition", "proxy/health", "proxy/health/probe", "sources"},

	// The sources of tables.
	"sources/apiserver": {"kernel/machine", "sources", "sources/manifest"},
	"sources/dns":       {"kernel/statefile", "sources"},
	"sources/convert":   {"sources", "sources/file", "sources/manifest", "sources/redact"},
	"sources/file":      {"kernel/statefile", "sources", "sources/fields"},
	"sources/fields":    {},
	"sources/manifest":  {"sources"},

	// The kernel: adapters, and what stands for it in tests.
	"kernel/host":       {"kernel", "kernel/conntrack", "kernel/ipset", "kernel/iptables", "kernel/ipvs", "kernel/link", "kernel/nft", "kernel/nl", "kernel/plan", "kernel/relay", "kernel/statefile", "kernel/sysctl"},
	"kernel/conntrack":  {"kernel", "kernel/nl"},
	"kernel/ipset":      {"kernel", "kernel/nl"},
	"kernel/iptables":   {"kernel", "kernel/nl", "kernel/packet"},
	"kernel/ipvs":       {"kernel", "kernel/nl"},
	"kernel/link":       {"kernel", "kernel/nl"},
	"kernel/nft":        {"kernel", "kernel/nl"},
	"kernel/relay":      {"kernel"},
	"kernel/sysctl":     {"kernel", "kernel/statefile"},
	"kernel/machine":    {},
	"kernel/fake":       {"kernel", "kernel/plan"},
	"kernel/kerneltest": {"kernel", "kernel/nl", "kernel/plan"},

	// The plan of changes, the way of a packet, and the parts of a check: pure.
	"kernel/plan":   {"kernel"},
	"kernel/packet": {"kernel"},

	// The ground.
	"sources":          {},
	"sources/redact":   {},
	"kernel":           {},
	"kernel/nl":        {},
	"kernel/statefile": {},
	"proxy/answers":    {},
	"proxy/cli":        {},
	"proxy/condition":  {"proxy/screen"},
	"proxy/screen":     {},
}

// standardOnly are packages of values and pure functions. Besides mayImport they import the
// standard library alone.
var standardOnly = []string{"kernel", "kernel/plan", "sources", "kernel/fake", "kernel/packet", "proxy", "proxy/announce", "proxy/answers", "proxy/frontend", "proxy/health", "proxy/mode", "proxy/mode/iptables", "proxy/mode/ipvs", "proxy/mode/nftables", "proxy/mode/userspace"}

// kernelModules are the modules that only packages below kernel may import.
var kernelModules = []string{"golang.org/x/sys", "github.com/sirupsen/logrus", "github.com/vishvananda/netlink", "github.com/moby/ipvs",
	"github.com/coreos/go-iptables", "github.com/google/nftables"}

// productModules are the libraries that the product itself imports, not only its tests.
var productModules = append(slices.Clone(kernelModules), "github.com/BurntSushi/toml", "github.com/fsnotify/fsnotify", "github.com/google/renameio")

// systemCalls are packages above kernel that make system calls which the standard library has not: one opens sockets, one
// asks when a file was made, and on which mount it is.
var systemCalls = []string{"proxy/health/probe", "sources/file"}

func TestImportsPointDown(t *testing.T) {
	unused := slices.Clone(productModules)
	for name, imports := range packages(t) {
		for _, i := range imports {
			unused = slices.DeleteFunc(unused, func(m string) bool { return strings.HasPrefix(i, m) })
			if own, ok := strings.CutPrefix(i, module+"/"); ok {
				if !slices.Contains(mayImport[name], own) {
					t.Errorf("package %s must not import %s", path.Join("svcproxy", name), own)
				}
				continue
			}
			if slices.Contains(standardOnly, name) && strings.Contains(strings.Split(i, "/")[0], ".") {
				t.Errorf("package %s imports %s: it is for the standard library alone", name, i)
			}
			if strings.HasPrefix(i, "k8s.io/") && name != "sources/apiserver" {
				t.Errorf("package %s imports %s: only sources/apiserver talks to one", path.Join("svcproxy", name), i)
			}
			if slices.Contains(systemCalls, name) && strings.HasPrefix(i, "golang.org/x/sys") {
				continue
			}
			if !strings.HasPrefix(name, "kernel/") && slices.ContainsFunc(kernelModules, func(m string) bool { return strings.HasPrefix(i, m) }) {
				t.Errorf("package %s imports %s: only those below kernel talk to it", path.Join("svcproxy", name), i)
			}
		}
	}
	if len(unused) > 0 {
		t.Errorf("no package imports %v", unused)
	}
}

// TestLibraries: the program is made with the libraries that the project chose.
func TestLibraries(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := strings.Fields(string(out))
	for _, library := range []string{
		"github.com/moby/ipvs", "github.com/vishvananda/netlink", "github.com/coreos/go-iptables/iptables",
		"github.com/fsnotify/fsnotify", "github.com/BurntSushi/toml", "github.com/spf13/pflag",
	} {
		if !slices.Contains(all, library) {
			t.Errorf("svcproxy does not use %s", library)
		}
	}
}

// TestPackagesAreDrawn holds the list of packages in proxy/DESIGN.md to the
// tree: it has every package once, and imports point to rows below.
func TestPackagesAreDrawn(t *testing.T) {
	rows := drawn(t)
	gone := maps.Clone(rows)
	for name, imports := range packages(t) {
		at, found := rows[name]
		if !found {
			t.Errorf("proxy/DESIGN.md does not have %s", name)
			continue
		}
		for _, i := range imports {
			if own, ok := strings.CutPrefix(i, module+"/"); ok && rows[own] <= at {
				t.Errorf("%s imports %s, which proxy/DESIGN.md has above it", name, own)
			}
		}
		delete(gone, name)
	}
	for name := range gone {
		t.Errorf("proxy/DESIGN.md has %s, which does not exist", name)
	}
}

// drawn returns the packages of the list in proxy/DESIGN.md with their lines.
func drawn(t *testing.T) map[string]int {
	text, err := os.ReadFile("proxy/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\n## Packages\n")
	list, _, _ = strings.Cut(list, "\n## ")
	rows := map[string]int{}
	for i, line := range strings.Split(list, "\n") {
		first, _, item := strings.Cut(line, ": ")
		if !item || !strings.HasPrefix(first, "- ") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(first, -1) {
			name := m[1]
			if name == "main.go" {
				name = ""
			}
			if rows[name] > 0 {
				t.Errorf("proxy/DESIGN.md has %s twice", name)
			}
			rows[name] = i
		}
	}
	return rows
}

// quoted is a word in backquotes.
var quoted = regexp.MustCompile("`([^` ]+)`")

// TestDesignsNameWhatExists holds the DESIGN.md files to the tree: the files and tests that they name exist, and
// proxy/DESIGN.md begins with twelve files to read.
func TestDesignsNameWhatExists(t *testing.T) {
	tests := map[string]bool{}
	var designs []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() && (name == ".git" || name == "bin"):
			return cmp.Or(err, fs.SkipDir)
		case d.Name() == "DESIGN.md":
			designs = append(designs, name)
		case strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(name)
			for _, m := range testFunc.FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, design := range designs {
		text, err := os.ReadFile(design)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			name := m[1]
			_, inTree := os.Stat(name)
			_, beside := os.Stat(filepath.Join(filepath.Dir(design), name))
			switch {
			case strings.Contains(name, "NAME"):
			case strings.HasSuffix(name, ".go") && inTree != nil && beside != nil, strings.HasPrefix(name, "Test") && !tests[name]:
				t.Errorf("%s names %s, which does not exist", design, name)
			}
		}
		if design == "proxy/DESIGN.md" {
			_, first, _ := strings.Cut(string(text), "## Read these twelve files in this order\n")
			first, _, _ = strings.Cut(first, "\n## ")
			if n := strings.Count(first, ".go`: "); n != 12 || strings.Count(string(text), "\n") > 150 {
				t.Errorf("%s begins with %d files and must begin with 12, and has at most 150 lines", design, n)
			}
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// packages returns the imports of each package of ours by its name; main is "".
func packages(t *testing.T) map[string][]string {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err == io.EOF {
			return imports
		} else if err != nil {
			t.Fatal(err)
		}
		imports[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = p.Imports
	}
}

// onlookers are the packages that show what svcproxy does, and decide nothing.
var onlookers = []string{
	"proxy/status", "proxy/events", "proxy/metrics", "proxy/web", "proxy/explain", "proxy/doctor", "proxy/report",
	"proxy/hooks", "proxy/screen",
}

// shown are the packages that onlookers may import: those with the values that they show, and those with what they need
// for themselves, as their files, the programs that they start, and facts about the machine.
var shown = []string{
	"kernel", "kernel/packet", "proxy", "proxy/announce", "proxy/condition", "proxy/events", "proxy/frontend",
	"proxy/health", "proxy/screen", "proxy/status", "sources",
	"kernel/machine", "kernel/statefile", "sources/fields", "sources/redact",
}

// deciders are the functions that decide, of packages that onlookers import.
var deciders = regexp.MustCompile(
	`\b(announce\.(Step|Keep)|frontend\.List|health\.(Overlay|Step)|proxy\.New|sources\.Merge)\(`)

// TestOnlookersImportValues: a package that looks on imports no adapter and no decider, and calls none.
func TestOnlookersImportValues(t *testing.T) {
	all := packages(t)
	for _, name := range onlookers {
		if _, exists := all[name]; !exists {
			t.Errorf("there is no package %s", name)
		}
		for _, i := range all[name] {
			if own, ok := strings.CutPrefix(i, module+"/"); ok && !slices.Contains(shown, own) {
				t.Errorf("package %s looks on, and imports %s", name, own)
			}
		}
		for file, text := range sourcesOf(t, name) {
			if found := deciders.Find(text); found != nil {
				t.Errorf("%s looks on, and calls %s", file, found)
			}
		}
	}
}

// sourcesOf returns the Go files of a package by name, without its tests.
func sourcesOf(t *testing.T, name string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cmp.Or(name, "."), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// TestWhoIsUpIsCountedOnce: health decides which endpoints are up, and frontend.Counts counts them. A package that
// looks at Endpoint.Spared counts by a rule of its own.
func TestWhoIsUpIsCountedOnce(t *testing.T) {
	spared := regexp.MustCompile(`\.Spared\b`)
	for name := range packages(t) {
		if name == "proxy/health" || name == "proxy/frontend" || name == "sources" {
			continue
		}
		for file, text := range sourcesOf(t, name) {
			if spared.Match(bytes.ReplaceAll(text, []byte("health.Spared"), nil)) { // without the cause
				t.Errorf("%s reads Endpoint.Spared", file)
			}
		}
	}
}
