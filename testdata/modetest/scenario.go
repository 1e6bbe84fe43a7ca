// Package modetest is what the tests of the modes share: the scenarios of
// testdata/rules, which give every mode the same input, and tables for benchmarks.
package modetest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

var update = flag.Bool("update", false, "rewrite the want sections of the scenarios")

// modes have sections of their own: "want iptables" and "want iptables WHAT". The other
// want sections are of mode ipvs, or of all modes.
var modes = []string{"iptables", "userspace"}

// Scenario is one file: a service table, a node and a configuration, and what is wanted
// for them. testdata/rules/README.md explains the sections.
type Scenario struct {
	Name   string
	Table  sources.Table
	Node   kernel.Node
	Config mode.Config

	archive *txtar.Archive
}

// Section is a want section: what is wanted, and its text.
type Section struct{ What, Text string }

// Run runs a test for each scenario. It calls got for each want section of a mode, ""
// for those without a mode's name, and compares what got returns with the section. With
// -update it rewrites the sections instead.
func Run(t *testing.T, of string, got func(t *testing.T, s *Scenario, w Section) (string, error)) {
	paths, err := filepath.Glob(filepath.Join(folder(t), "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios in %s: %v", folder(t), err)
	}
	for _, path := range paths {
		s := Scenario{Name: strings.TrimSuffix(filepath.Base(path), ".txtar")}
		t.Run(s.Name, func(t *testing.T) {
			s.Read(t)
			s.run(t, of, path, got)
		})
	}
}

func (s *Scenario) run(t *testing.T, of, path string, got func(*testing.T, *Scenario, Section) (string, error)) {
	for i := range s.archive.Files {
		f := &s.archive.Files[i]
		what, ok := wanted(f.Name, of)
		if !ok {
			continue
		}
		text, err := got(t, s, Section{what, string(f.Data)})
		switch {
		case err != nil:
			t.Error(err)
		case *update:
			f.Data = []byte(text)
		case text != string(f.Data):
			t.Errorf("%s:\n%swant:\n%s", f.Name, text, f.Data)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, txtar.Format(s.archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Wants reports whether a scenario has a want section of a mode.
func (s *Scenario) Wants(of string) bool {
	return slices.ContainsFunc(s.archive.Files, func(f txtar.File) bool { _, ok := wanted(f.Name, of); return ok })
}

// wanted returns what the section with this name wants of a mode. ok is false if the
// section is of another mode, or is input.
func wanted(name, of string) (what string, ok bool) {
	what, ok = strings.CutPrefix(name, "want ")
	first, rest, _ := strings.Cut(what, " ")
	switch {
	case !ok:
		return "", false
	case slices.Contains(modes, first):
		return rest, first == of
	}
	return what, of == ""
}

// Read reads the scenario of a name: its table, as merged for the node, and its node
// and configuration.
func (s *Scenario) Read(t *testing.T) {
	t.Helper()
	var err error
	if s.archive, err = txtar.ParseFile(filepath.Join(folder(t), s.Name+".txtar")); err != nil {
		t.Fatal(err)
	}
	if len(strings.TrimSpace(string(s.archive.Comment))) == 0 {
		t.Error("no comment that says what is tested and why")
	}
	if !s.Wants("") && !slices.ContainsFunc(modes, s.Wants) {
		t.Error("no want section")
	}
	var table sources.Table
	var cut []string
	s.Node, s.Config = kernel.Node{Name: "n1", Release: kernel.Release{Major: 6, Minor: 1}}, Defaults()
	for _, f := range s.archive.Files {
		switch {
		case f.Name == "services.toml":
			var problems []sources.Problem
			table, _, problems = file.Decode(f.Name, f.Data)
			for _, p := range problems {
				t.Error(p)
			}
		case f.Name == "cut":
			cut = strings.Fields(string(f.Data))
		case f.Name == "node":
			o, err := kernel.ParseObserved(string(f.Data))
			if err != nil {
				t.Fatalf("node: %v", err)
			}
			s.Node = o.Node
		case f.Name == "config":
			decode(t, string(f.Data), &s.Config)
		case !strings.HasPrefix(f.Name, "want "):
			t.Errorf("section %q: not one of services.toml, cut, node, config, want ...", f.Name)
		}
	}
	for i := range table.Services.Len() {
		for k := range table.Services.At(i).Endpoints {
			if e := &table.Services.At(i).Endpoints[k]; slices.Contains(cut, e.Addr.String()) {
				e.Weight, e.Cut = 0, true
			}
		}
	}
	s.Table, _ = sources.Merge(onNode(s.Node), table)
}

// folder returns the folder of the scenarios: testdata/rules of this module.
func folder(t testing.TB) string {
	t.Helper()
	for up := "."; len(up) < 100; up = filepath.Join(up, "..") {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			return filepath.Join(up, "testdata", "rules")
		}
	}
	t.Fatal("no go.mod above the test's folder")
	return ""
}

// decode reads fields of a mode.Config and of its frontend.Config.
func decode(t *testing.T, text string, c *mode.Config) {
	t.Helper()
	md, err := toml.Decode(text, c)
	if err != nil {
		t.Fatalf("config: %v", err)
	}
	rest, err := toml.Decode(text, &c.Frontends)
	if err != nil {
		t.Fatalf("config: %v", err)
	}
	for _, key := range md.Undecoded() {
		if slices.ContainsFunc(rest.Undecoded(), func(k toml.Key) bool { return slices.Equal(k, key) }) {
			t.Errorf("config: unknown key %s", key)
		}
	}
}

// onNode returns the facts that a merge needs of a node.
func onNode(n kernel.Node) sources.HostFacts {
	f := sources.HostFacts{Gateways: n.Gateways}
	for _, a := range n.Addrs {
		f.Addrs = append(f.Addrs, a.Prefix.Addr())
	}
	return f
}

// Defaults returns the defaults of the configuration.
func Defaults() mode.Config {
	return mode.Config{
		Frontends:     frontend.Config{IPv6: true, Scheduler: "rr"},
		Names:         kernel.DefaultNames,
		MasqueradeBit: 14,
		GUEPort:       6080,
		VIPPing:       true,
	}
}
