package kerneltest

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// givenNamespace is set in the environment of a test binary that cannot create network
// namespaces, as in a unit's sandbox, and was started in an empty one instead. The first
// test takes it. Later tests skip, and run again in a process of their own.
const givenNamespace = "SVCPROXY_NAMESPACE"

// NamespaceTaken is the reason why such a test skips.
const NamespaceTaken = "the given namespace is another test's: run this one alone"

var (
	given = os.Getenv(givenNamespace) == "given"
	taken = struct {
		sync.Mutex
		by string
	}{}
)

// takeNamespace gives the namespace to the test. If the test that has it, or a subtest
// of that, asks again, it wants a second namespace, which a process of its own would not
// have either.
func takeNamespace(t testing.TB) {
	t.Helper()
	taken.Lock()
	defer taken.Unlock()
	switch {
	case taken.by == "":
		taken.by = t.Name()
		if err := linkUp("lo"); err != nil {
			t.Fatal(err)
		}
	case strings.HasPrefix(t.Name()+"/", taken.by+"/"):
		Need(t, Namespaces)
	default:
		t.Skip(NamespaceTaken)
	}
}
