package file

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
)

// FuzzDecode: for any bytes, the decoder ends and returns the same twice. Every problem is one line of text, with a
// line number that the file has.
func FuzzDecode(f *testing.F) {
	for _, data := range scenarioFiles(f) {
		f.Add(data)
	}
	f.Add([]byte("\xef\xbb\xbfa = 1\n"))
	f.Add([]byte("a = \"\"\"\n\"\"\"\"\"\nb = '''x''''\n\"c\\u0041\" = {x.y = 1,\n# c\n}\n[[d]]\n[d.e]\n[[d]]\n[d.e]\n"))
	f.Add([]byte("a.b = 1\na.c = 2\n[a]\nd = 3\n[x.y]\n[x]\ny = 1\n"))

	f.Fuzz(func(t *testing.T, data []byte) {
		table, warnings, problems := Decode("f.toml", data)
		again, warnings2, problems2 := Decode("f.toml", data)
		if !reflect.DeepEqual(table, again) || !reflect.DeepEqual(warnings, warnings2) || !reflect.DeepEqual(problems, problems2) {
			t.Fatalf("two answers: %v %v\n%v %v", table, problems, again, problems2)
		}
		lines := 1 + bytes.Count(data, []byte("\n"))
		for _, p := range append(warnings, problems...) {
			if p.Origin.Line < 1 || p.Origin.Line > lines || strings.Contains(p.Message, "\n") {
				t.Errorf("of %d lines: %q", lines, p.Error())
			}
		}
		sources.Validate(table)
	})
}

// FuzzCheck: a health check that is accepted can be sent as it is. No value adds a line to a request, is longer than a
// probe reads, or changes when it is read again.
func FuzzCheck(f *testing.F) {
	for _, key := range checkFields().Names() {
		f.Add(key, "x")
	}
	for _, seed := range [][2]string{
		{"path", "/a?b=%20"}, {"path", "/a\r\nX: y"}, {"host", "a\nb"}, {"host", "[::1]:80"}, {"headers", "a: b\r\n"}, {"query", "a..b"}, {"query", "_a._b.c."},
		{"sendHex", "0d 0a"}, {"interface", "eth0.1"}, {"command", "/bin/true"}, {"expectStatus", "200-299"}, {"minHealthy", "50%"}, {"args", "a\x00b"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, key, text string) {
		for _, kind := range sources.CheckTypes() {
			for _, v := range []any{text, []any{text, text}, map[string]any{text: text, "Accept": text}} {
				checkOnce(t, map[string]any{"type": string(kind), "command": "/bin/true", key: v}, kind)
			}
		}
	})
}

// checkOnce reads a check and judges what it accepts.
func checkOnce(t *testing.T, table map[string]any, kind sources.CheckType) {
	if kind != sources.CheckExec && table["command"] == "/bin/true" {
		delete(table, "command")
	}
	d := &decoder{}
	c, err := d.check(node{V: table})
	if c == nil || err != nil {
		return
	}
	p := &c.Probe
	for _, line := range []string{p.Method, p.Path, p.Host, p.ServerName, p.Service, p.Query, p.Interface} {
		if strings.ContainsAny(line, "\r\n\x00") || len(line) > maxAnswer {
			t.Errorf("%v has the line %q", table, line)
		}
	}
	for line := range strings.SplitSeq(p.Headers, "\n") {
		if name, _, ok := strings.Cut(line, ": "); line != "" && (!ok || !isToken(name) || strings.Contains(line, "\r")) {
			t.Errorf("%v has the header %q", table, line)
		}
	}
	if again, err := d.check(node{V: table}); again != c || err != nil {
		t.Errorf("%v: %+v and then %+v, %v", table, c, again, err)
	}
}

// scenarioFiles are the services files of all scenarios.
func scenarioFiles(t testing.TB) (files [][]byte) {
	scenarios, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(scenarios) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, path := range scenarios {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".toml") {
				files = append(files, bytes.ReplaceAll(file.Data, []byte("^M"), []byte("\r")))
			}
		}
	}
	return files
}
