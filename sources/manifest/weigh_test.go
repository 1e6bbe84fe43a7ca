package manifest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources/manifest"
)

const service = "{apiVersion: v1, kind: Service, metadata: {name: w}, spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}}"

// aliases returns lines x0 to xN, each of which has ten of the one before.
func aliases(levels int, first, around string) string {
	text := "x0: &x0 " + first + "\n"
	for i := 1; i <= levels; i++ {
		text += fmt.Sprintf("x%d: &x%d "+around+"\n", i, i, strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 10))
	}
	return text
}

// A few aliases that come to more than any memory holds are refused before they are written out.
func TestAliasesAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"lists of lists of objects": "apiVersion: v1\nkind: List\n" + aliases(9, service, "{apiVersion: v1, kind: List, items: [%s]}") + "items: [*x9]\n",
		"lists in one object":       aliases(9, "[{port: 80}]", "[%s]") + "apiVersion: v1\nkind: Service\nmetadata: {name: w}\nspec: {ports: *x9}\n",
		"copies of one object": "apiVersion: v1\nkind: List\nx0: &x0 " + strings.Replace(service, "{port: 80}", strings.Repeat("{port: 80}, ", 9000), 1) +
			"\nitems: [" + strings.Repeat("*x0, ", 50_000) + "]\n",
		"documents": strings.Repeat("---\n"+aliases(5, service, "[%s]"), 20),
		"no alias":  "[" + strings.Repeat("a,", 5_000_000) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			objects, problems := manifest.Decode("x.yaml", []byte(text))
			runtime.ReadMemStats(&after)
			if !objects.Empty() || len(problems) != 1 || !strings.Contains(problems[0].Error(), "x.yaml") ||
				!strings.Contains(problems[0].Error(), "more than 1000000 keys and values") {
				t.Errorf("%d services: %v", len(objects.Services), problems)
			}
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 150 {
				t.Errorf("%d bytes of text took %d MB", len(text), mb)
			}
		})
	}
	if objects, problems := manifest.Decode("x.yaml", []byte("a: &a "+service+"\napiVersion: v1\nkind: List\nitems: [*a, *a]\n")); len(objects.Services) != 2 {
		t.Errorf("two aliases: %+v, %v", objects, problems)
	}
	if _, problems := manifest.Decode("x.yaml", []byte("a: &a {kind: *a}\n")); len(problems) == 0 {
		t.Error("an alias of itself is taken")
	}
}
