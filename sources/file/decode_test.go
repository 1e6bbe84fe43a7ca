package file

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/svcproxy/svcproxy/sources"
)

// bigFile is n services with 10 endpoints each, a third of them tables.
func bigFile(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "[services.web-%d]\ntype = \"LoadBalancer\"\nclusterIP = \"10.96.%d.%d\"\n", i, i/250, 1+i%250)
		fmt.Fprintf(&b, "ports = [ { name = \"http\", port = 80, targetPort = 8080 }, { name = \"https\", port = 443, targetPort = 8443 } ]\n")
		fmt.Fprintf(&b, "endpoints = [\n")
		for j := range 10 {
			if j%3 == 0 {
				fmt.Fprintf(&b, "  { address = \"10.%d.%d.%d\", nodeName = \"n%d\", zone = \"a\", weight = %d },\n", j, i/250, 1+i%250, j, j)
			} else {
				fmt.Fprintf(&b, "  \"10.%d.%d.%d\",\n", j, i/250, 1+i%250)
			}
		}
		fmt.Fprintf(&b, "]\n\n")
	}
	return []byte(b.String())
}

func BenchmarkDecode(b *testing.B) {
	data := bigFile(1000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		table, _, problems := Decode("services.toml", data)
		if table.Services.Len() != 1000 || len(problems) != 0 {
			b.Fatal(table.Services.Len(), problems)
		}
	}
}

// layouts are those of layoutFile.
var layouts = []string{"generated", "optional", "sub-tables", "dotted"}

// layoutFile is n services of 5 endpoints. All layouts but "generated" have optional keys and comments at random, as files
// that people write, and the last two health checks.
func layoutFile(n int, layout string) []byte {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	maybe := func(format string, args ...any) {
		if layout != "generated" && r.IntN(3) == 0 {
			fmt.Fprintf(&b, format, args...)
		}
	}
	for i := range n {
		fmt.Fprintf(&b, "[services.s%05d]\n", i)
		maybe("# of team %d\n", i%7)
		fmt.Fprintf(&b, "clusterIP = \"10.96.%d.%d\"\n", i/250, 1+i%250)
		ports := []string{"ports = [{ port = 80, targetPort = 8080 }]", "ports = [{ targetPort = 8080, port = 80, protocol = \"TCP\" }]", "ports = [{ name = \"web\", port = 80, targetPort = 8080 }]"}
		if layout == "generated" {
			ports = ports[:1]
		}
		fmt.Fprintln(&b, ports[r.IntN(len(ports))])
		maybe("scheduler = \"wrr\"\n")
		maybe("sessionAffinity = \"None\"\n")
		maybe("externalTrafficPolicy = \"Cluster\"\n")
		maybe("internalTrafficPolicy = \"Cluster\" # all nodes\n")
		if layout == "dotted" && r.IntN(2) == 0 {
			fmt.Fprintf(&b, "healthCheck.type = \"http\"\n")
			maybe("healthCheck.path = \"/%d\"\n", i%9)
			maybe("healthCheck.interval = \"%ds\"\n", 1+i%9)
			maybe("healthCheck.fall = %d\n", 1+i%9)
		}
		b.WriteString("endpoints = [\n")
		for j := range 5 {
			address := fmt.Sprintf("10.%d.%d.%d", 128+j, i/250, 1+i%250)
			if layout == "generated" {
				fmt.Fprintf(&b, "  %q,\n", address)
				continue
			}
			fmt.Fprintf(&b, "  { address = %q", address)
			maybe(", weight = %d", 1)
			maybe(", zone = \"z%d\"", j)
			b.WriteString(" },")
			maybe(" # rack %d", j)
			b.WriteString("\n")
		}
		b.WriteString("]\n\n")
		if layout == "sub-tables" && r.IntN(2) == 0 {
			fmt.Fprintf(&b, "[services.s%05d.healthCheck]\ntype = \"http\"\n", i)
			maybe("path = \"/%d\"\n", i%9)
			maybe("interval = \"%ds\"\n", 1+i%9)
			maybe("fall = %d\n", 1+i%9)
			b.WriteString("\n")
		}
	}
	return []byte(b.String())
}

// BenchmarkLayouts reads and validates 5,000 services.
func BenchmarkLayouts(b *testing.B) {
	for _, layout := range layouts {
		data := layoutFile(5000, layout)
		b.Run(layout, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				t, _, problems := Decode("services.toml", data)
				if problems = append(problems, sources.Validate(t)...); t.Services.Len() != 5000 || len(problems) > 0 {
					b.Fatal(t.Services.Len(), problems)
				}
			}
		})
	}
}

// BenchmarkLibraryAlone decodes the files of BenchmarkLayouts by the library alone.
func BenchmarkLibraryAlone(b *testing.B) {
	for _, layout := range layouts {
		data := string(layoutFile(5000, layout))
		b.Run(layout, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				var v any
				if _, err := toml.Decode(data, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestManyProblems: Decode returns the first problems, and one that says that there are more.
func TestManyProblems(t *testing.T) {
	text := services("a")
	for i := range 1000 {
		text += fmt.Sprintf("k%d = 1\n", i)
	}
	_, _, problems := Decode("f.toml", []byte(text))
	if len(problems) != maxProblems+1 || problems[maxProblems].Message != "more than 100 problems: correct these first" {
		t.Errorf("%d: %v", len(problems), problems[len(problems)-1])
	}
}
