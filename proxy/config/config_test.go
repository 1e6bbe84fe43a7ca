package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/sources"
)

// Each file of testdata/scenario has a configuration (svcproxy.toml, or kube-proxy's
// config.conf or config.yaml), flags, one per line, and the result: values that are
// not the default, problems, warnings.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			part, name := make(map[string]string), "svcproxy.toml"
			for _, f := range a.Files {
				part[f.Name] = string(f.Data)
				if strings.HasPrefix(f.Name, "config.") {
					name = f.Name
				}
			}
			fs := pflag.NewFlagSet("svcproxy", pflag.ContinueOnError)
			flags := AddFlags(fs)
			if err := fs.Parse(strings.Split(strings.TrimSuffix(part["flags"], "\n"), "\n")); err != nil {
				t.Fatal(err)
			}
			c, warnings, err := Decode(name, []byte(part[name]), flags)
			var problems []sources.Problem
			if invalid := (*Error)(nil); errors.As(err, &invalid) {
				problems = invalid.Problems
			} else if err != nil {
				t.Fatal(err)
			}
			compare(t, "problems", lines(problems), part["problems"])
			if !strings.Contains(part["warnings"], notYet) {
				warnings = slices.DeleteFunc(warnings, func(p sources.Problem) bool { return strings.HasSuffix(p.Message, notYet) })
			}
			compare(t, "warnings", lines(warnings), part["warnings"])
			compare(t, "values", changed(c), part["values"])
		})
	}
}

// notYet ends the warnings of idle keys. Only scenarios about them expect these.
const notYet = "has no effect in this version"

func compare(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s\n%swant\n%s", what, got, want)
	}
}

func lines(ps []sources.Problem) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.Error() + "\n")
	}
	return b.String()
}

// changed are the fields without their defaults.
func changed(c Config) string {
	var b strings.Builder
	d := Default()
	for _, f := range allFields {
		if v := f.toml(&c); v != f.toml(&d) {
			b.WriteString(f.key + " = " + v + "\n")
		}
	}
	return b.String()
}

// A written configuration loads again to the same values, defaults or not.
func TestWrite(t *testing.T) {
	other := Default()
	other.Mode = "ipvs"
	other.HostnameOverride = "a \"b\" \\ \x01 é\n"
	other.FeatureGates = map[string]bool{"A b": true}
	other.NodePortAddresses.Primary = true
	other.File.Paths = nil
	other.ClientConnection.QPS = 1e21
	for _, c := range []Config{Default(), other} {
		got, warnings, err := Decode("written.toml", c.TOML(), nil)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%v\ngot  %+v\nwant %+v\n%s", err, got, c, c.TOML())
		}
		if len(c.FeatureGates) == 0 && len(warnings) != 0 {
			t.Errorf("warnings: %v", warnings)
		}
	}
	name := filepath.Join(t.TempDir(), "svcproxy.toml")
	if err := Write(name, Default()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != string(Default().TOML()) {
		t.Errorf("wrote %q, %v", text, err)
	}
	name = filepath.Join(filepath.Dir(name), "c.yaml")
	if err := Write(name, Default()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != string(Default().YAML()) {
		t.Errorf("wrote %q, %v", text, err)
	}
}

// Every field of Config has its key, its comment and a table in one piece.
func TestFields(t *testing.T) {
	var tables []string
	seen := make(map[string]bool)
	for _, f := range allFields {
		if f.comment == "" || strings.Contains(f.comment, "\n") {
			t.Errorf("%s: comment %q", f.key, f.comment)
		}
		for _, name := range []string{f.key, "--" + f.flag} {
			if seen[name] && name != "--" {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if n := len(tables); n == 0 || tables[n-1] != f.table() {
			if slices.Contains(tables, f.table()) {
				t.Errorf("%s: its table is in two pieces", f.key)
			}
			tables = append(tables, f.table())
		}
	}
	if tables[0] != "" {
		t.Error("fields without a table must come first")
	}

	// A field without a key stays zero when everything else is written and read.
	var leaves func(v reflect.Value) int
	leaves = func(v reflect.Value) int {
		if v.Kind() != reflect.Struct || v.Type().PkgPath() != reflect.TypeFor[Config]().PkgPath() || v.Type() == reflect.TypeFor[NodePortAddresses]() {
			return 1
		}
		n := 0
		for i := range v.NumField() {
			n += leaves(v.Field(i))
		}
		return n
	}
	if n := leaves(reflect.ValueOf(Config{})); n != len(allFields)+3 {
		t.Errorf("Config has %d fields, %d have a key, and Master, Written and ModeFallsBack have none", n, len(allFields))
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l, err := Read(&Flags{File: write("a.toml", "mode = \"ipvs\"\n")})
	if err != nil || l.Config.Mode != "ipvs" || l.File != filepath.Join(dir, "a.toml") || string(l.Data) != "mode = \"ipvs\"\n" {
		t.Errorf("got %+v, %v", l, err)
	}
	var invalid *Error
	if _, err := Read(&Flags{File: write("a.yaml", "mode: ipvs\n")}); !errors.As(err, &invalid) {
		t.Errorf("YAML: %v", err)
	}
	if _, err := Read(&Flags{File: filepath.Join(dir, "none.toml")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestConntrackMax(t *testing.T) {
	for _, test := range []struct {
		perCore, min, cores int
		want                uint32
	}{
		{32768, 131072, 2, 131072},
		{32768, 131072, 8, 262144},
		{0, 131072, 8, 0},
		{32768, 131072, 64, 1 << 20},
		{32768, 2 << 20, 64, 2 << 20},
		{1<<31 - 1, 0, 1024, 1 << 20},
	} {
		if got := (Conntrack{MaxPerCore: test.perCore, Min: test.min}).Max(test.cores); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}

func TestNodeName(t *testing.T) {
	if got := (Config{}).NodeName("Node-1\n"); got != "node-1" {
		t.Errorf("got %q", got)
	}
	if got := (Config{HostnameOverride: " Edge-2 "}).NodeName("node-1"); got != "edge-2" {
		t.Errorf("got %q", got)
	}
}

// FuzzDecode: any bytes are refused with a line that the file has, or decode to a
// Config that is the same after being written and read.
func FuzzDecode(f *testing.F) {
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
			if part.Name == "svcproxy.toml" {
				f.Add(part.Data)
			}
		}
	}
	f.Add(Default().TOML())
	f.Fuzz(func(t *testing.T, data []byte) {
		c, warnings, err := Decode("f.toml", data, nil)
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
		again, _, err := Decode("f.toml", c.TOML(), nil)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%v\nread  %+v\nagain %+v\n%s", err, c, again, c.TOML())
		}
	})
}
