package file

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
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

// BenchmarkDecodeUnlike is BenchmarkDecode of services whose skeletons all differ.
func BenchmarkDecodeUnlike(b *testing.B) {
	port := 0
	data := regexp.MustCompile("8080").ReplaceAllFunc(bigFile(1000), func([]byte) []byte {
		port++
		return fmt.Appendf(nil, "%#x", port) // no plain number, see fields/skeleton.go
	})
	for b.Loop() {
		if table, _, problems := Decode("services.toml", data); table.Services.Len() != 1000 || len(problems) != 0 {
			b.Fatal(table.Services.Len(), problems)
		}
	}
}

// variedFile is n services of 5 endpoints that differ in more than names and numbers, as those that people write.
func variedFile(n int) []byte {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	maybe := func(format string, args ...any) {
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, format, args...)
		}
	}
	for i := range n {
		fmt.Fprintf(&b, "[services.web-%d]\n", i)
		maybe("# of team %d\n", i%7)
		fmt.Fprintf(&b, "vips = [\"10.96.%d.%d\"]\n", i/250, 1+i%250)
		fmt.Fprintf(&b, "%s\n", []string{"port = 80", "ports = [80, 443]", "ports = [{ port = 80, targetPort = 8080 }]", "ports = [{ name = \"dns\", port = 53, protocol = \"UDP\" }]"}[r.IntN(4)])
		maybe("scheduler = %q\n", []string{"wrr", "lc", "mh"}[r.IntN(3)])
		maybe("sessionAffinity = \"ClientIP\"\n")
		maybe("loadBalancerSourceRanges = [\"192.0.2.0/24\", \"198.51.100.0/%d\"]\n", 24+i%8)
		maybe("healthCheck = { type = \"http\", path = \"/%d\", interval = \"%ds\" }\n", i, 1+i%9)
		maybe("externalTrafficPolicy = \"Local\"\n")
		fmt.Fprintf(&b, "endpoints = [\n")
		for j := range 3 + r.IntN(5) {
			fmt.Fprintf(&b, "  { address = \"10.%d.%d.%d\"", j, i/250, 1+i%250)
			maybe(", weight = %d", 1+r.IntN(100))
			maybe(", nodeName = \"n%d\"", j)
			maybe(", zone = \"a\"")
			fmt.Fprintf(&b, " },")
			maybe(" # rack %d", j)
			fmt.Fprintf(&b, "\n")
		}
		fmt.Fprintf(&b, "]\n\n")
	}
	return []byte(b.String())
}

// BenchmarkDecodeVaried is BenchmarkDecode of services that differ as those that people write.
func BenchmarkDecodeVaried(b *testing.B) {
	data := variedFile(1000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if table, _, problems := Decode("services.toml", data); table.Services.Len() != 1000 || len(problems) != 0 {
			b.Fatal(table.Services.Len(), problems)
		}
	}
}

// BenchmarkLibraryAlone decodes the file of BenchmarkDecode by the library alone.
func BenchmarkLibraryAlone(b *testing.B) {
	data := string(bigFile(1000))
	for b.Loop() {
		var v map[string]any
		if _, err := toml.Decode(data, &v); err != nil {
			b.Fatal(err)
		}
	}
}

// TestManyProblems: Decode returns the first problems, and one that says that there are more.
func TestManyProblems(t *testing.T) {
	text := services("a")
	for i := range 1000 {
		text += fmt.Sprintf("k%d = 1\n", i)
	}
	_, _, problems := Decode("f.toml", []byte(text))
	if len(problems) != maxProblems+1 || problems[maxProblems].Message != "more than 100 problems: mend these first" {
		t.Errorf("%d: %v", len(problems), problems[len(problems)-1])
	}
}

// BenchmarkWhole is BenchmarkDecode of a file that is not read by sections.
func BenchmarkWhole(b *testing.B) {
	data := append(bigFile(1000), "[services]\n"...)
	for b.Loop() {
		if table, _, problems := Decode("services.toml", data); table.Services.Len() != 1000 || len(problems) != 0 {
			b.Fatal(table.Services.Len(), problems)
		}
	}
}
