package kerneltest

import (
	"os"
	"strings"
	"testing"
)

func namespace(t *testing.T) string {
	t.Helper()
	s, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNamespaceIsTheTestsOwn(t *testing.T) {
	Need(t, Root, Tool("ip"))
	outside := namespace(t)
	t.Run("inside", func(t *testing.T) {
		NewNamespace(t)
		if namespace(t) == outside {
			t.Error("still in the namespace of the machine")
		}
		if links := strings.Count(Run(t, "ip", "-o", "link"), "\n"); links > 5 {
			t.Errorf("ip sees %d links: it runs outside", links)
		}
		if out := Run(t, "ip", "-o", "link", "show", "lo"); !strings.Contains(out, "UP") {
			t.Errorf("lo is not up: %s", out)
		}
	})
	if now := namespace(t); now != outside {
		t.Errorf("the test that started a subtest is in %s, was in %s", now, outside)
	}
}

func TestProbesLeaveTheNamespaceAlone(t *testing.T) {
	Need(t, Root, Tool("ip"), Dummy)
	if out := Run(t, "ip", "-o", "link"); strings.Contains(out, "probe0") {
		t.Errorf("the probe's device is left over: %s", out)
	}
}
