package kerneltest

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// givenNamespace is set in the environment of a test binary that may make no
// network namespace, such as under a unit's sandbox, and was started in an empty
// one instead. One test has it; whoever comes later finds it used and steps aside,
// to be run again by a process of its own.
const givenNamespace = "SVCPROXY_NAMESPACE"

// NamespaceTaken is how such a test skips.
const NamespaceTaken = "the given namespace is another test's: run this one alone"

var (
	given = os.Getenv(givenNamespace) == "given"
	taken = struct {
		sync.Mutex
		by string
	}{}
)

// takeNamespace makes the given namespace the test's own. Asked for by the test
// that has it, or by a subtest of that, it is a second one, which no process of
// its own would give.
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
