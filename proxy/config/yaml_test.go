package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
)

func TestIsYAML(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       bool
	}{
		{"c.yaml", "", true},
		{"c.YML", "mode = 1", true},
		{"c.toml", "apiVersion: x", false},
		{"config.conf", "", false},
		{"config.conf", "# a comment\r\n\r\n  # another\r\napiVersion: x\r\n", true},
		{"config.conf", "\ufeffkind: x", true},
		{"config.conf", "kind:", true},
		{"config.conf", "---\n", true},
		{"config.conf", "%YAML 1.2\n---\n", true},
		{"config.conf", `{"kind": "ConfigMap"}`, true},
		{"config.conf", `"kind": "ConfigMap"`, true},
		{"config.conf", "mode = \"a: b\"", false},
		{"config.conf", "[ipvs]", false},
		{"config.conf", `"a:b" = 1`, false},
		{"config.conf", "a.b = '''\nkind: x\n'''", false},
	} {
		if got := isYAML(test.name, []byte(test.text)); got != test.want {
			t.Errorf("%s %q: %t", test.name, test.text, got)
		}
	}
}

func TestParseYAML(t *testing.T) {
	text := []byte("apiVersion: " + upstreamVersion + "\nkind: " + upstreamKind + "\nmode: ipvs\n")
	l, err := Parse("config.conf", text, nil)
	if err != nil || !l.YAML || l.Config.Mode != "ipvs" {
		t.Errorf("got %+v, %v", l, err)
	}
	if l, err := Parse("svcproxy.toml", []byte(`mode = "ipvs"`), nil); err != nil || l.YAML {
		t.Errorf("got %+v, %v", l, err)
	}
}

// Lines are right in files with CR LF, and for bytes that are not UTF-8.
func TestYAMLLines(t *testing.T) {
	wrong := "kind: ConfigMap\ndata:\n  config.conf: |\n    apiVersion: " + upstreamVersion + "\n    kind: " + upstreamKind + "\n    mode: ipvz\n"
	for _, test := range []struct{ text, want string }{
		{wrong, "c.yaml:6: mode "},
		{strings.ReplaceAll(wrong, "\n", "\r\n"), "c.yaml:6: mode "},
		{"# \ufffd\na: b\nc: \xff\n", "c.yaml:3: not UTF-8"},
		{"a: b\nc: \x01\n", "c.yaml:2: not YAML: control characters"},
		{"a: b\nc: [1\nd: 2\n", "c.yaml:2: not YAML: did not find expected ','"},
		{"a: b\nc: *d\n", "c.yaml:2: not YAML: unknown anchor 'd'"},
		{"a: b\nc: }\n", "c.yaml:2: not YAML: did not find expected node content"},
	} {
		if _, _, err := Decode("c.yaml", []byte(test.text), nil); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q: %v", test.text, err)
		}
	}
}

// The cost of a hostile file is bounded: aliases are not expanded, and nesting and
// size are limited.
func TestYAMLBounded(t *testing.T) {
	head := "apiVersion: " + upstreamVersion + "\nkind: " + upstreamKind + "\n"
	var laughs, unknown strings.Builder
	laughs.WriteString(head + "a0: &a0 [x, x]\n")
	for i := range 60 {
		fmt.Fprintf(&laughs, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	laughs.WriteString("nodePortAddresses: *a60\nfeatureGates: {x: *a60}\nlogging: {vmodule: *a60}\n")
	unknown.WriteString(head)
	for i := range 60000 {
		fmt.Fprintf(&unknown, "scheduler%d: 1\n", i)
	}
	for name, text := range map[string]string{
		"laughs":   laughs.String(),
		"itself":   head + "ipvs: &i {ipvs: *i, excludeCIDRs: &s [*s]}\n",
		"unknown":  unknown.String(),
		"nested":   strings.Repeat("[", maxYAML),
		"indented": strings.Repeat("- ", maxYAML/2),
		"wide":     head + "x: &x [" + strings.Repeat("1,", 100000) + "1]\nnodePortAddresses: [" + strings.Repeat("*x,", 100000) + "*x]\n",
		"long":     head + strings.Repeat("#", maxYAML),
	} {
		began := time.Now()
		_, _, err := Decode("c.yaml", []byte(text), nil)
		if err == nil && name != "unknown" {
			t.Errorf("%s: no error", name)
		}
		// It takes 0.3 s; the point is that it ends.
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// A file is replaced as a whole, and only a regular one.
func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := Write(name, Default()); err != nil {
		t.Fatal(err)
	}
	var text [4]byte
	if n, _ := old.Read(text[:]); string(text[:n]) != "old" {
		t.Errorf("who had the file open reads %q", text[:n])
	}

	link := filepath.Join(dir, "link.toml")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	for _, strange := range []string{link, dir, os.DevNull} {
		if err := Write(strange, Default()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", strange, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// FuzzYAML: any bytes are refused with a line that the file has, or decode to a
// Config that is the same after being written and read.
func FuzzYAML(f *testing.F) {
	files, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no scenarios", err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range a.Files {
			if strings.HasPrefix(part.Name, "config.") {
				f.Add(part.Data)
			}
		}
	}
	samples, err := filepath.Glob("../../testdata/samples/*.yaml")
	if err != nil || len(samples) == 0 {
		f.Fatal("no samples", err)
	}
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(Default().YAML())
	f.Fuzz(func(t *testing.T, data []byte) {
		c, warnings, err := Decode("f.yaml", data, nil)
		var problems []sources.Problem
		if invalid := (*Error)(nil); errors.As(err, &invalid) {
			problems = invalid.Problems
		}
		most := 1 + strings.Count(string(data), "\n")
		for _, p := range append(problems, warnings...) {
			if p.Origin.Line < 1 || p.Origin.Line > most || strings.Contains(p.Error(), "\n") {
				t.Errorf("of %d lines: %q", most, p.Error())
			}
		}
		if err != nil {
			return
		}
		c.ModeFallsBack = false // a file that svcproxy wrote is in its words
		for name, text := range map[string][]byte{"f.yaml": c.YAML(), "f.toml": c.TOML()} {
			again, _, err := Decode(name, text, nil)
			if err != nil || !reflect.DeepEqual(again, c) {
				t.Fatalf("%v\nread  %+v\nagain %+v\n%s", err, c, again, text)
			}
		}
	})
}
