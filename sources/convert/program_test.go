package convert

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources/file"
)

// TestProgramStatus runs the programs of imported checks. To an exec check 0 is success, 1 a failure, and the rest a weight.
func TestProgramStatus(t *testing.T) {
	keepalived := func(key string) string {
		return "virtual_server 203.0.113.1 80 {\nprotocol TCP\nreal_server 10.2.1.10 80 {\nMISC_CHECK {\nmisc_path \"%s\"\n" + key + "\n}\n}\n}\n"
	}
	for _, c := range []struct {
		format        Format
		text, program string
		want          int
	}{
		{Keepalived, keepalived(""), "/bin/sh -c 'exit 0'", 0},
		{Keepalived, keepalived(""), "/bin/sh -c 'exit 1'", 1},
		{Keepalived, keepalived(""), "/bin/sh -c 'exit 7'", 1},
		{Keepalived, keepalived(""), "/bin/sh -c 'exit 255'", 1},
		{Keepalived, keepalived(""), "/bin/sh -c 'kill -KILL $$'", 1},
		{Keepalived, keepalived(""), "/usr/bin/test 'a $b' = 'a $b'", 0},
		{Keepalived, keepalived("misc_dynamic"), "/bin/sh -c 'exit 0'", 0},
		{Keepalived, keepalived("misc_dynamic"), "/bin/sh -c 'exit 7'", 7},
	} {
		r, err := Read(c.format, File{Name: "f", Data: fmt.Appendf(nil, c.text, c.program)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		table, _, problems := file.Decode("services.toml", []byte(r.Document()))
		if len(problems) > 0 || table.Services.Len() != 1 || table.Services.At(0).HealthCheck == nil {
			t.Fatal(problems, r.Document())
		}
		p := table.Services.At(0).HealthCheck.Probe
		got := status(t, exec.Command(p.Command, strings.Split(p.Args, "\x00")...))
		if p.OnlyZero && got != 0 {
			got = 1
		}
		if got != c.want {
			t.Errorf("%s: %s: exit status %d, want %d\n%s", c.format, c.program, got, c.want, r.Document())
		}
	}
}

func status(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	exit := &exec.ExitError{}
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	return cmd.ProcessState.ExitCode()
}
