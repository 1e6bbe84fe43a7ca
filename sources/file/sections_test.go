package file

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
	accidents "github.com/svcproxy/svcproxy/testdata/broken"
)

// asWhole reads a file as one section.
func asWhole(data []byte) (reading, []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: sources.Files, File: "f.toml"}}
	now := d.read(reading{}, fields.Uncut(data))
	return now, few(d.problems)
}

// sameAsWhole reads a file after another one, and compares that with reading it as one section: the verdict, the table
// and the warnings. The problems are the same if none is about the file as TOML: sections have more of these.
func sameAsWhole(t interface{ Fatalf(string, ...any) }, before reading, data []byte) reading {
	now, problems := decodeAfter(before, "f.toml", data)
	whole, wantProblems := asWhole(data)
	if (len(problems) == 0) != (len(wantProblems) == 0) {
		t.Fatalf("of %q\nread %v\nas a whole %v", data, problems, wantProblems)
	}
	asTOML := slices.ContainsFunc(append(problems, wantProblems...), func(p sources.Problem) bool {
		return strings.HasPrefix(p.Message, "not TOML") || strings.HasPrefix(p.Message, "duplicate key")
	})
	if asTOML {
		return now
	}
	if !reflect.DeepEqual(now.table.Services.Slice(), whole.table.Services.Slice()) && now.table.Services.Len()+whole.table.Services.Len() > 0 {
		t.Fatalf("of %q\nread %+v\nas a whole %+v", data, now.table, whole.table)
	}
	if got, want := fmt.Sprint(few(now.warnings), problems), fmt.Sprint(few(whole.warnings), wantProblems); got != want {
		t.Fatalf("of %q\nread %s\nas a whole %s", data, got, want)
	}
	return now
}

// pieces are lines of which the tests below make files: those of plain sections, and such that only look like them.
var pieces = []string{
	"[services.a]\n", "[services.b]\n", "[services.\"ns/c\"]\n", "[services.'d']\n", "  [services.e] # five\n", "[services.default/a]\n",
	"[services.a]\nclusterIP = \"10.0.0.1\"\nports = [ { port = 80 } ]\n", "[services.b]\nclusterIP = \"10.0.0.2\"\nports = [ { port = 80 } ]\n",
	"[services.c]\nclusterIP = \"10.0.0.3\"\n[[services.c.ports]]\nport = 80\n[[services.c.ports]]\nport = 81\nname = \"x\"\n",
	"[services.\"a\"]\n", "[services.\"default/a\"]\n", "[services.\"a\\u0062\"]\n", "[services.\"\"]\n", "[services.\"x]y\"]\n", "[services. f]\n",
	"[services]\n", "[services.a.b]\n", "[[services.a.endpoints]]\naddress = \"10.1.0.9\"\n", "[services.a.endpoints.ports]\nhttp = 9\n", "[[services.a]]\n", "[other]\n", "[services.a.ports]\n",
	"a.x = 1\n", "services.g = {}\n", "services = {}\n",
	"services.a.clusterIP = \"10.0.0.7\"\n", "a.clusterIP = \"10.0.0.8\"\n", "b.ports = [ { port = 80 } ]\n",
	"services.b.ports = [ 443 ]\n", "[ services . b ]\n", "[services.b.healthCheck]\ntype = \"tcp\"\n",
	"services.b.healthCheck.type = \"tcp\"\n", "[healthChecks.k]\ntype = \"tcp\"\n", "b.endpoints = [ \"10.1.0.7\" ]\n",
	"endpoints = [\n  \"10.1.0.1\",\n", "  \"10.1.0.2\", # two\n", "]\n", "endpoints = [ \"10.1.0.3\" ]\n",
	"loadBalancerSourceRanges = [ \"10.0.0.1/8\",\n\"192.168.1.1/16\" ]\n", "type = \"LoadBalancer\"\n", "type = \"NodePort\"\n",
	"[healthChecks.h]\ntype = \"tcp\"\nfall = 2\n", "[healthChecks]\n", "healthChecks.h = \"ping\"\n", "healthCheck = \"@h\"\n", "healthCheck = \"http:/x\"\n", "[services.a.healthCheck]\ntype = \"tcp\"\n",
	"healthCheck.type = \"http\"\n", "healthCheck.headers.Accept = \"text/plain\"\n", "healthCheck = { type = \"exec\", command = \"/x\", args = [ \"a\", \"\\u0062\" ] }\n",
	"onePacket = true\n", "sessionAffinity = \"Client\\u0049P\"\n", "healthCheckNodePort = 0x10\n", "[services.a.healthCheck.headers]\nAccept = \"x\"\n",
	"scheduler = \"\"\"\n", "scheduler = '''\n", "\"\"\"\n", "'''\n", "scheduler = \"rr\"\n", "scheduler = \"\"\" x \\\n", "\\\"\"\"\n",
	"ports = [ { port = 80, name = \"x\" }, { port = 81, name = \"y\" } ]\n", "ports = [ { port = 80, port = 81 } ]\n", "ports.x = 1\n",
	"endpoints = [ { address = \"10.1.0.4\", ports.x = 1, ports.y = 2 }, { address = \"10.1.0.5\", ports = { \"\" = 3, y = 4 } } ]\n",
	"endpoints = [ { address = \"10.1.0.4\", ports.x = 1, ports = 2 } ]\n", "\"\" = [ [ 2 ], { g = 4 } ]\n", "clusterIP = \"10.0.0.9\"\n",
	"# a comment\n", "# [services.z]\n", "\n", "   \n", "\t", "\r\n", "\r", "#", "\ufeff", "\x7f", "# \x01\n", "\x00", "\xff", "]", "[", "{", "}", "\"", "'", "=", ",",
}

// TestAfter: after any change, the reading with the help of the last one equals the decoding of the whole file.
func TestAfter(t *testing.T) {
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		// Few pieces of a file are odd, so that most files have one oddity.
		kinds := rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(6, 8), rapid.IntRange(0, len(pieces)-1))
		file := rapid.SliceOfN(kinds, 0, 12).Draw(t, "file")
		var before reading
		for range rapid.IntRange(1, 5).Draw(t, "readings") {
			var b strings.Builder
			for _, p := range file {
				b.WriteString(pieces[p])
			}
			now := sameAsWhole(t, before, []byte(b.String()))
			shared += takenOver(before, now)
			before = now
			file = edited(t, file, kinds)
		}
	})
	if shared == 0 {
		t.Error("no section was ever taken over")
	}
}

// takenOver counts the services that two readings share.
func takenOver(before, now reading) (n int) {
	was := map[*sources.Port]bool{}
	for _, s := range before.table.Services.All() {
		if len(s.Ports) > 0 {
			was[&s.Ports[0]] = true
		}
	}
	for _, s := range now.table.Services.All() {
		if len(s.Ports) > 0 && was[&s.Ports[0]] {
			n++
		}
	}
	return n
}

// edited is a list of pieces with one added, removed or replaced, or two exchanged.
func edited(t *rapid.T, file []int, kinds *rapid.Generator[int]) []int {
	at := rapid.IntRange(0, len(file)).Draw(t, "at")
	head, tail := file[:at:at], file[at:]
	switch how := rapid.IntRange(0, 3).Draw(t, "how"); {
	case how == 0 || len(tail) == 0:
		return append(append(head, kinds.Draw(t, "more")), tail...)
	case how == 1:
		return append(head, tail[1:]...)
	case how == 2:
		return append(append(head, kinds.Draw(t, "other")), tail[1:]...)
	default:
		return append(append(head, tail[len(tail)-1]), tail[:len(tail)-1]...)
	}
}

// TestAfterAccidents is TestAfter for damage by programs, disks, editors and people.
func TestAfterAccidents(t *testing.T) {
	valid := bigFile(4)
	before := sameAsWhole(t, reading{}, valid)
	bySections := 0
	for _, c := range accidents.Mutations(valid, 720) {
		now := sameAsWhole(t, before, c.Content)
		if takenOver(before, now) > 0 {
			bySections++
		}
		sameAsWhole(t, now, valid)
	}
	if bySections < 50 {
		t.Errorf("%d were read by sections", bySections)
	}
}

// FuzzAfter is TestAfter for any bytes.
func FuzzAfter(f *testing.F) {
	plain := "# ours\n[services.a]\nclusterIP = \"10.0.0.1\"\nports = [ { port = 80 } ]\n\n[services.\"ns/b\"]\nendpoints = [\n  \"10.1.0.1\",\n]\n"
	f.Add([]byte(plain), []byte(plain+"[services.c]\n"))
	f.Add([]byte(plain), []byte("\n"+plain))
	f.Add([]byte(plain+"[services.c]\nscheduler = \"\"\"\n[services.d]\n\"\"\"\n"), []byte(plain))
	f.Add([]byte(plain+"[[services.\"ns/b\".ports]]\nport = 1\n"), []byte(plain+"[services]\n"))
	for _, layout := range layouts {
		varied := layoutFile(20, layout)
		f.Add(varied, bytes.Replace(varied, []byte("weight = "), []byte("weight = 1"), 1))
		f.Add(varied, bytes.Replace(varied, []byte("scheduler = "), []byte("sessionAffinityTimeout = \"1h\"\nscheduler = "), 1))
		f.Add(varied, bytes.Replace(varied, []byte("[services.s00009]\n"), nil, 1))
		f.Add(varied[:len(varied)/2], varied)
	}
	files := scenarioFiles(f)
	for i, data := range files {
		f.Add(data, files[(i+1)%len(files)])
		f.Add(data, append([]byte("# before\n"), data...))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		one := sameAsWhole(t, reading{}, first)
		sameAsWhole(t, sameAsWhole(t, one, second), first)
	})
}

// TestTakenOver: of a changed file only the changed section is read. The others keep their values and get new lines.
func TestTakenOver(t *testing.T) {
	data := bigFile(100)
	before, problems := decodeAfter(reading{}, "f.toml", data)
	if len(problems) > 0 || len(before.sections) != 100 {
		t.Fatalf("%d sections, %v", len(before.sections), problems)
	}
	data = bytes.Replace(data, []byte("\"10.1.0.51\",\n"), []byte("{ address = \"10.1.0.51\", weight = 2 }, # new\n # line\n"), 1)
	now := sameAsWhole(t, before, data)
	was := map[string]*sources.Endpoint{}
	for _, s := range before.table.Services.All() {
		was[s.Name] = &s.Endpoints[0]
	}
	for _, s := range now.table.Services.All() {
		if changed := s.Name == "web-50"; changed == (was[s.Name] == &s.Endpoints[0]) {
			t.Errorf("%s: changed %v", s.FullName(), changed)
		}
	}
}

// BenchmarkReread reads a file of 1,000 services after the change of one endpoint, and merges.
func BenchmarkReread(b *testing.B) {
	texts := [2][]byte{bigFile(1000)}
	texts[1] = bytes.Replace(texts[0], []byte("\"10.1.2.1\",\n"), []byte("\"10.1.2.2\",\n"), 1)
	g := running()
	for i := 0; b.Loop(); i++ {
		if !takes(g, "f.toml", string(texts[i%2])) {
			b.Fatal("no news")
		}
		if table, err := g.outcome(); table.Services.Len() != 1000 || err != nil {
			b.Fatal(table.Services.Len(), err)
		}
	}
}
