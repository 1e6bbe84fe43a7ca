package file

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const stored = "[services.web]\nvips = [\"198.51.100.80\"]\nport = 80\nbackends = [\"10.2.1.10:8080\"]\n"

// TestStore: a table is stored as a whole or not at all, and a writer who counts on another one is refused.
func TestStore(t *testing.T) {
	s := &Store{Dir: filepath.Join(t.TempDir(), "tables")}
	first, _, err := s.Put("web", []byte(stored), Expect{Absent: true})
	if err != nil || first.Services != 1 || len(first.Digest) != 32 {
		t.Fatal(first, err)
	}
	text, got, err := s.Get("web")
	if err != nil || string(text) != stored || got.Digest != first.Digest {
		t.Errorf("read %q, %v, %v", text, got, err)
	}
	refused := []struct {
		name, text, want string
		expect           Expect
		is               error
	}{
		{"web", stored, "counts on: its digest is " + first.Digest, Expect{Absent: true}, ErrChanged},
		{"web", stored, "counts on: its digest", Expect{Digest: "x"}, ErrChanged},
		{"other", stored, "counts on: there is none", Expect{Digest: first.Digest}, ErrChanged},
		{"../x", stored, "a table's name has at most 63", Expect{}, ErrName},
		{"-x", stored, "a table's name has at most 63", Expect{}, ErrName},
		{strings.Repeat("a", 64), stored, "a table's name has at most 63", Expect{}, ErrName},
		{"web", stored + "colour = 1\n", `table web:5: web: unknown key "colour"`, Expect{}, nil},
		{"web", "", "table web: it has no services", Expect{}, nil},
		{"web", `{"services": {"web": {"vips": null}}}`, "line 1 of the JSON: services.web.vips: null is no value here", Expect{}, nil},
		{"web", "{\n\"services\": {,}}", "line 2 of the JSON: invalid character", Expect{}, nil},
		{"web", `{"services": {"web": {}, "web": {}}}`, "line 1 of the JSON: services.web is given twice", Expect{}, nil},
		{"web", strings.Repeat(`{"a":`, 100), "nested too deep", Expect{}, nil},
		{"web", "{\"x\": \"" + strings.Repeat("\u007f", 3<<20) + "\"}", "it is 18 MiB large: at most 16 are read", Expect{}, nil},
		{"web", `{} {}`, "something follows the object", Expect{}, nil},
		{"web", `{"services": {"web": {"vip": "198.51.100.80"}}}`, `table web as TOML:3: web: unknown key "vip"`, Expect{}, nil},
	}
	for _, r := range refused {
		_, _, err := s.Put(r.name, []byte(r.text), r.expect)
		if err == nil || !strings.Contains(err.Error(), r.want) || r.is != nil && !errors.Is(err, r.is) {
			t.Errorf("%s %q: %v, want %q", r.name, r.text, err, r.want)
		}
	}
	if all, err := s.List(); err != nil || len(all) != 1 || all[0].Digest != first.Digest {
		t.Errorf("after what was refused: %v, %v", all, err)
	}
	second, _, err := s.Put("web", []byte(`{"services": {"web": {"vips": ["198.51.100.80"], "port": 80,
		"backends": ["10.2.1.10", {"address": "10.2.1.11", "weight": 3}]}}}`), Expect{Digest: first.Digest})
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ = s.Get("web")
	if table, _, problems := Decode("", text); len(problems) > 0 || len(table.Services.At(0).Endpoints) != 2 {
		t.Errorf("JSON became\n%s\n%v", text, problems)
	}
	if err := s.Remove("web", Expect{Digest: first.Digest}); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
	if err := s.Remove("web", Expect{Digest: second.Digest}); err != nil {
		t.Error(err)
	}
	if err := s.Remove("web", Expect{}); !errors.Is(err, ErrNoTable) {
		t.Error(err)
	}
	if err := s.Clear(); err != nil {
		t.Error(err)
	}
}

// TestStoreNames: a table may have DNS names, as TOML or JSON. They are stored as written and asked for by who reads it.
func TestStoreNames(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	for _, text := range []string{
		"[services.web]\nvips = [\"198.51.100.80\"]\nport = 80\n" +
			"backends = [\"app.example.net:8080\", { srv = \"_web._tcp.example.net\" }, \"10.2.1.10\"]\n",
		`{"services": {"web": {"vips": ["198.51.100.80"], "port": 80,
			"backends": [{"name": "app.example.net", "port": 8080}, {"srv": "_web._tcp.example.net"}, "10.2.1.10"]}}}`,
	} {
		if _, _, err := s.Put("web", []byte(text), Expect{}); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		kept, stored, err := s.Get("web")
		table, _, problems := Decode("web", kept)
		if err != nil || len(problems) > 0 || stored.Services != 1 {
			t.Fatalf("%s: %v, %v, %v", kept, stored, problems, err)
		}
		if web := table.Services.At(0); len(web.Names) != 2 || web.Names[0].Ports[0].Port != 8080 || !web.Names[1].SRV ||
			len(web.Endpoints) != 1 {
			t.Errorf("%s became %+v", text, web)
		}
	}
	_, _, err := s.Put("web", []byte(strings.Replace(stored, "10.2.1.10:8080", "app:8080", 1)), Expect{})
	if err == nil || !strings.Contains(err.Error(), "table web:4: ") {
		t.Errorf("a name that is not whole: %v", err)
	}
}

// TestStoreWriters: of writers that count on the same table one gets through.
func TestStoreWriters(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	before, _, err := s.Put("web", []byte(stored), Expect{})
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	done := make(chan string, 50)
	for n := range 50 {
		writers.Go(func() {
			text := stored + fmt.Sprintf("# %d\n", n)
			if _, _, err := s.Put("web", []byte(text), Expect{Digest: before.Digest}); err == nil {
				done <- text
			} else if !errors.Is(err, ErrChanged) {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	text, _, _ := s.Get("web")
	if len(done) != 1 || string(text) != <-done {
		t.Errorf("%d writers got through", len(done)+1)
	}
}
