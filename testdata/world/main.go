package world

import (
	"flag"
	"os"
	"testing"
)

// Main runs the tests of a package that draws worlds. Each property is tried on
// 5,000 random worlds, 300 with -short, and on the same ones in every run. `make
// fuzz` asks for others with the flags of package rapid.
func Main(m *testing.M) {
	flag.Parse()
	checks := "5000"
	if testing.Short() {
		checks = "300"
	}
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.seed": "1"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
