package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// refused says where a value breaks the schema s, and returns "" if it does not. It knows
// only the words of JSON schema that this package writes.
func refused(t *testing.T, s map[string]any, v any, at string) string {
	t.Helper()
	for word := range s {
		switch word {
		case "$schema", "title", "description", "type", "properties", "additionalProperties", "items", "anyOf", "enum", "minimum", "maximum", "pattern":
		default:
			t.Fatalf("%s: the schema has a %q, which this test does not know", at, word)
		}
	}
	if either, ok := s["anyOf"].([]any); ok {
		var why []string
		for _, e := range either {
			w := refused(t, e.(map[string]any), v, at)
			if w == "" {
				return ""
			}
			why = append(why, w)
		}
		return strings.Join(why, " and ")
	}
	if words, ok := s["enum"].([]any); ok {
		for _, w := range words {
			if w == v {
				return ""
			}
		}
		return fmt.Sprintf("%s is %v, want one of %v", at, v, words)
	}
	switch v := v.(type) {
	case map[string]any:
		if s["type"] != "object" {
			break
		}
		properties, _ := s["properties"].(map[string]any)
		for key, inner := range v {
			sub, ok := properties[key].(map[string]any)
			if !ok {
				sub, ok = s["additionalProperties"].(map[string]any)
			}
			if !ok {
				return at + " has an unknown key " + key
			}
			if why := refused(t, sub, inner, at+"."+key); why != "" {
				return why
			}
		}
		return ""
	case []any:
		if s["type"] != "array" {
			break
		}
		for _, item := range v {
			if why := refused(t, s["items"].(map[string]any), item, at+"[]"); why != "" {
				return why
			}
		}
		return ""
	case string:
		pattern, _ := s["pattern"].(string)
		if s["type"] == "string" && regexp.MustCompile(pattern).MatchString(v) {
			return ""
		}
	case bool:
		if s["type"] == "boolean" {
			return ""
		}
	case float64:
		least, lok := s["minimum"].(float64)
		most, mok := s["maximum"].(float64)
		whole := v == float64(int64(v))
		if (s["type"] == "number" || s["type"] == "integer" && whole) && (!lok || v >= least) && (!mok || v <= most) {
			return ""
		}
	}
	return fmt.Sprintf("%s is %v, want %v", at, v, s)
}

// read decodes a TOML document into the types of JSON.
func read(t *testing.T, data []byte) any {
	t.Helper()
	var m map[string]any
	if err := toml.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return roundTrip(t, m)
}

func roundTrip(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(t *testing.T, schema []byte) map[string]any {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// valid reports whether a decoded file would be served.
func valid(table sources.Table, _, problems []sources.Problem) bool {
	more := sources.Validate(table)
	return len(problems)+len(more) == 0
}

// The schemas accept every sample in the tree that the readers accept.
func TestSamplesPass(t *testing.T) {
	services := parse(t, servicesSchema(file.Keys()))
	main := parse(t, configSchema(config.Keys(), file.Keys()))
	root := filepath.Join("..", "..")
	passed := map[string]int{}
	sample := func(name string, data []byte) {
		if valid(file.Decode(name, data)) && strings.Contains(string(data), "[services") {
			if why := refused(t, services, read(t, data), "services.toml"); why != "" {
				t.Errorf("%s is valid, but the schema says: %s", name, why)
			}
			passed["services.toml"]++
		}
		if _, _, err := config.Decode(name, data, nil); err == nil && valid(file.DecodeServices("static", name, data)) {
			if why := refused(t, main, read(t, data), "svcproxy.toml"); why != "" {
				t.Errorf("%s is valid, but the schema says: %s", name, why)
			}
			passed["svcproxy.toml"]++
		}
	}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		switch filepath.Ext(path) {
		case ".toml":
			if data, err := os.ReadFile(path); err == nil {
				sample(path, data)
			}
		case ".txtar":
			archive, err := txtar.ParseFile(path)
			if err != nil {
				return err
			}
			for _, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".toml") {
					sample(path+":"+f.Name, f.Data)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sample("default", config.Default().TOML())
	if passed["services.toml"] < 50 || passed["svcproxy.toml"] < 10 {
		t.Errorf("too few samples found: %v", passed)
	}
	t.Log(passed)
}

func TestUnknownKeysAndWrongTypesAreRefused(t *testing.T) {
	services := parse(t, servicesSchema(file.Keys()))
	main := parse(t, configSchema(config.Keys(), file.Keys()))
	for _, c := range []struct {
		schema   map[string]any
		toml     string
		complain string
	}{
		{services, `mode = "ipvs"`, "unknown key mode"},
		{services, "[services.a]\nclusterIp = \"10.0.0.1\"", "unknown key clusterIp"},
		{services, "[services.a]\nports = [{ port = 80, target = 1 }]", "unknown key target"},
		{services, "[services.a]\nports = [{ port = 65536 }]", "65536"},
		{services, "[services.a]\nendpoints = [{ address = \"10.0.0.1\", wieght = 1 }]", "unknown key wieght"},
		{services, "[services.a]\nendpoints = [{ address = \"10.0.0.1\", ports = { http = 0 } }]", "ports.http"},
		{services, "[services.a]\ntype = \"Loadbalancer\"", "Loadbalancer"},
		{services, "[services.a]\ndrainTimeout = \"30\"", "30"},
		{services, "[services.a]\nhealthCheck = 1", "healthCheck is 1"},
		{services, "[services.a]\nhealthCheck = { tpye = \"tcp\" }", "unknown key tpye"},
		{services, "[services.a.healthCheck]\nminHealthy = \"101%\"", "101%"},
		{services, "[healthChecks.a]\nport = 65536", "65536"},
		{services, "[healthChecks.a]\nheaders = { A = 1 }", "headers.A"},
		{main, `mod = "ipvs"`, "unknown key mod"},
		{main, "[ipvs]\nschedular = \"rr\"", "unknown key schedular"},
		{main, "[sources.file]\npath = []", "unknown key path"},
		{main, "[iptables]\nmasqueradeBit = 32", "32"},
		{main, "[ipvs]\nsyncPeriod = 30", "30"},
		{main, "[services.a]\nclusterIp = \"10.0.0.1\"", "unknown key clusterIp"},
	} {
		if why := refused(t, c.schema, read(t, []byte(c.toml)), "file"); !strings.Contains(why, c.complain) {
			t.Errorf("%q: %q, want a complaint with %q", c.toml, why, c.complain)
		}
	}
}

// The schemas have exactly the keys that the readers know.
func TestSchemasHaveTheKeysAndNoOthers(t *testing.T) {
	want := map[string]bool{}
	for _, k := range file.Keys() {
		want[k.Path] = true
	}
	if got := paths(parse(t, servicesSchema(file.Keys())), "", "NAME"); !reflect.DeepEqual(got, want) {
		t.Errorf("services.schema.json has\n%v, want\n%v", got, want)
	}
	for _, k := range config.Keys() {
		want[k.Path] = true
		for i, r := range k.Path {
			if r == '.' {
				want[k.Path[:i]] = true
			}
		}
	}
	got := paths(parse(t, configSchema(config.Keys(), file.Keys())), "", "NAME")
	delete(got, "featureGates.NAME") // any
	if !reflect.DeepEqual(got, want) {
		t.Errorf("svcproxy.schema.json has\n%v, want\n%v", got, want)
	}
}

// paths are the keys of a schema, in the form of package fields.
func paths(s map[string]any, prefix, free string) map[string]bool {
	out := map[string]bool{}
	add := func(path string, inner map[string]any) {
		out[path] = true
		next := free
		switch {
		case path == "services.NAME.endpoints[].ports", path == "services.NAME.backends[].ports":
			next = "PORTNAME"
		case strings.HasSuffix(path, ".headers"):
			next = "HEADER"
		}
		if items, list := inner["items"].(map[string]any); list {
			path, inner = path+"[]", items
		}
		if either, ok := inner["anyOf"].([]any); ok {
			inner = either[1].(map[string]any)
		}
		for p := range paths(inner, path+".", next) {
			out[p] = true
		}
	}
	for name, inner := range asMap(s["properties"]) {
		add(prefix+name, asMap(inner))
	}
	if inner := asMap(s["additionalProperties"]); inner != nil {
		add(prefix+free, inner)
	}
	return out
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
