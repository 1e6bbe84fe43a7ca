package commands

import (
	"testing"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// The verdicts of a status are exit codes.
func TestVerdictsAreExitCodes(t *testing.T) {
	for v, want := range map[status.Verdict]int{
		status.Well: cli.OK, status.Degraded: cli.Degraded, status.Empty: cli.NoBackends,
	} {
		if int(v) != want {
			t.Errorf("verdict %d, want %d", v, want)
		}
	}
	if code := cli.Code(&status.NoServiceError{Name: "web"}); code != cli.Failed {
		t.Errorf("no service: %d", code)
	}
}
