package commands

import (
	"strings"
	"testing"
)

// TestWarnIsClean: a warning has words of files and of DNS servers, which must not reach the terminal as they are.
func TestWarnIsClean(t *testing.T) {
	var said strings.Builder
	(&Env{Err: &said}).warn("name \x1b[2Jx\ny")
	if want := "svcproxy: warning: name ?[2Jx y\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}
