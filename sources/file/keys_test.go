package file

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// documentWith is a minimal services file with a value at a key's path.
func documentWith(path, value string) string {
	for _, name := range []string{"PORTNAME", "NAME"} {
		path = strings.ReplaceAll(path, name, "a")
	}
	before, below, inside := strings.Cut(path, "[].")
	if !inside {
		return path + " = " + value + "\n"
	}
	return fmt.Sprintf("%s = [ { %s } ]\n", before, strings.TrimSuffix(documentWith(below, value), "\n"))
}

// samples are values of each kind, as TOML.
var samples = map[fields.Kind][]string{
	fields.KindTable:             {"{}"},
	fields.KindAddressesOrTables: {"[]", `["10.96.0.1"]`},
	fields.KindPortsOrTables:     {"[]", "[80, 443]"},
	fields.KindAddresses:         {"[]", `["10.96.0.1", "fd00::1"]`},
	fields.KindCIDRs:             {"[]", `["10.0.0.0/8"]`},
	fields.KindAddress:           {`"10.96.0.1"`, `"fd00::1"`},
	fields.KindPort:              {"1", "65535"},
	fields.KindPortOrRange:       {"1", `"65000-65001"`},
	fields.KindWeight:            {"0", "65535"},
	fields.KindRate:              {`"1/s"`, `"300/m"`, `"1000000/h"`},
	fields.KindDuration:          {`"0s"`, `"1h30m"`},
	fields.KindBoolean:           {"true", "false"},
	fields.KindString:            {`""`, `"any"`},
	fields.KindStrings:           {"[]"},
	fields.KindTexts:             {"{}", `{ Accept = "text/plain" }`},
	fields.KindStringOrTable:     {"{}", `"tcp"`, `"http:/healthz"`},
	fields.KindPortOrName:        {"80", `"http"`},
	fields.KindAmount:            {"0", "3", `"0%"`, `"50%"`},
	fields.KindNumber:            {"0", "0.5"},
}

// wrong is a value of no kind but a table.
const wrong = "{ x = 1979-05-27 }"

// TestKeysAreRead: Decode knows each documented key, accepts every value that it documents, and refuses others.
func TestKeysAreRead(t *testing.T) {
	for _, k := range Keys() {
		values := slices.Clone(samples[k.Kind])
		for _, w := range k.Words {
			values = append(values, fmt.Sprintf("%q", w))
		}
		if k.Default != "" {
			values = append(values, k.Default)
		}
		if k.Kind == fields.KindInteger {
			values = append(values, fmt.Sprint(k.Min), fmt.Sprint(k.Max))
		}
		if strings.Contains(k.Comment, "interval") || strings.Contains(k.Comment, "timeout of") {
			values = slices.DeleteFunc(values, func(v string) bool { return v == `"0s"` })
		}
		if strings.Contains(k.Comment, "a DNS name") {
			values = []string{`"app.example.net"`}
		}
		if len(values) == 0 || k.Comment == "" {
			t.Errorf("nothing to say of %+v", k)
		}
		for _, v := range values {
			text := documentWith(k.Path, v)
			_, _, problems := Decode("f.toml", []byte(text))
			for _, p := range problems {
				// Other keys may be missing, or the value may have no effect alone.
				if m := p.Message; strings.Contains(m, "unknown") || strings.Contains(m, "must be") || strings.Contains(m, "is not") {
					t.Errorf("%s: %v", text, p)
				}
			}
		}
		if k.Kind == fields.KindTable {
			continue
		}
		if _, _, problems := Decode("f.toml", []byte(documentWith(k.Path, wrong))); len(problems) == 0 {
			t.Errorf("%s takes %s", k.Path, wrong)
		}
	}
}

// TestDefaults: a written default is the same as the absent key.
func TestDefaults(t *testing.T) {
	defaults := 0
	for _, k := range Keys() {
		if k.Default == "" {
			continue
		}
		defaults++
		without := "[services.a]\nsessionAffinity = \"ClientIP\"\nports = [ { port = 80 } ]\nendpoints = [ { address = \"10.2.0.1\" } ]\nloadBalancerIPs = [ { ip = \"10.96.0.1\" } ]\n"
		if strings.HasSuffix(k.Path, "sessionAffinity") {
			without = strings.Replace(without, "sessionAffinity = \"ClientIP\"\n", "", 1)
		}
		given := k.Path[strings.LastIndexByte(k.Path, '.')+1:] + " = " + k.Default
		with := without + given + "\n"
		if strings.HasPrefix(k.Path, "healthChecks.") || strings.HasPrefix(k.Path, "services.NAME.vips[].") || strings.HasPrefix(k.Path, "services.NAME.backends[].") {
			continue // the same fields as elsewhere
		}
		if strings.HasPrefix(k.Path, "services.NAME.healthCheck.") {
			check := "healthCheck = { type = \"" + string(typeWith(t, k)) + "\""
			if typeWith(t, k) == sources.CheckExec {
				check += ", command = \"/bin/true\""
			}
			with = without + check + ", " + given + " }\n"
			without += check + " }\n"
		}
		if strings.HasPrefix(k.Path, "services.NAME.limits.") {
			with, without = without+"limits = { connections = 1, "+given+" }\n", without+"limits = { connections = 1 }\n"
		}
		if list, _, inside := strings.Cut(strings.TrimPrefix(k.Path, "services.NAME."), "[]."); inside {
			with = strings.Replace(without, list+" = [ { ", list+" = [ { "+given+", ", 1)
		}
		want, _, problems := Decode("f.toml", []byte(without))
		got, _, more := Decode("f.toml", []byte(with))
		if len(problems)+len(more) > 0 || !strings.Contains(with, given) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n%v\n%+v\nwithout it\n%v\n%+v", with, more, got, problems, want)
		}
	}
	if defaults < 10 {
		t.Errorf("%d defaults", defaults)
	}
}

// typeWith is the first type of health checks that has a key.
func typeWith(t *testing.T, k fields.Key) sources.CheckType {
	types, ok := strings.CutPrefix(k.Comment, "type ")
	if !ok {
		return sources.CheckTCP
	}
	types, _, _ = strings.Cut(types, ":")
	first, _, _ := strings.Cut(types, ",")
	if !slices.Contains(sources.CheckTypes(), sources.CheckType(first)) {
		t.Errorf("%s: %q is no type", k.Path, first)
	}
	return sources.CheckType(first)
}

// TestEveryKeyIsDocumented: Keys has all keys of all tables.
func TestEveryKeyIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, k := range Keys() {
		if documented[k.Path] {
			t.Errorf("%s is documented twice", k.Path)
		}
		documented[k.Path] = true
	}
	tables := map[string][]string{
		"":                                   documentFields.Names(),
		"services.NAME.":                     serviceFields().Names(),
		"services.NAME.ports[].":             portFields.Names(),
		"services.NAME.loadBalancerIPs[].":   vipFields.Names(),
		"services.NAME.vips[].":              vipFields.Names(),
		"services.NAME.limits.":              limitFields.Names(),
		"services.NAME.endpoints[].":         endpointFields().Names(),
		"services.NAME.endpoints[].ports.":   {"PORTNAME"},
		"services.NAME.backends[].":          endpointFields().Names(),
		"services.NAME.backends[].ports.":    {"PORTNAME"},
		"services.":                          {"NAME"},
		"services.NAME.healthCheck.":         checkFields().Names(),
		"healthChecks.":                      {"NAME"},
		"services.NAME.healthCheck.headers.": {"HEADER"},
		"healthChecks.NAME.headers.":         {"HEADER"},
		"healthChecks.NAME.":                 checkFields().Names(),
	}
	read := 0
	for below, names := range tables {
		for _, name := range names {
			read++
			if !documented[below+name] {
				t.Errorf("%s%s is read and not documented", below, name)
			}
		}
	}
	if read != len(documented) {
		t.Errorf("%d keys are read, %d documented", read, len(documented))
	}
}

// TestWords: a key has words if and only if its kind is a word.
func TestWords(t *testing.T) {
	for _, k := range Keys() {
		if k.Path == "services.NAME.scheduler" && !slices.Equal(k.Words, sources.Schedulers()) {
			t.Error(k.Words)
		}
		if (k.Kind == fields.KindWord) != (len(k.Words) > 0) {
			t.Errorf("%+v", k)
		}
	}
}
