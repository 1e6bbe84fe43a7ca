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
	ldirectord := "virtual=203.0.113.1:80\n\treal=10.2.1.10:80 masq\n\tchecktype=external\n\tcheckcommand=\"%s\"\n"
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
		{LDirectord, ldirectord, "/bin/sh -c 'exit 0'", 0},
		{LDirectord, ldirectord, "/bin/sh -c 'exit 7'", 1},
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

// TestProgramArguments runs the programs of imported checks, which print their arguments.
func TestProgramArguments(t *testing.T) {
	for _, c := range []struct{ virtual, address, port, want string }{
		{"virtual=203.0.113.1:80\n\treal=10.2.1.10:8080 masq\n", "10.2.1.10", "8080", "<-v><203.0.113.1><80><10.2.1.10><8080>"},
		{"virtual6=[2001:db8::1]:80\n\treal6=[fd00:2::10]:8080 masq\n", "fd00:2::10", "8080", "<-v><[2001:db8::1]><80><[fd00:2::10]><8080>"},
		{"virtual=7\n\treal=10.2.1.10:8080 gate\n", "10.2.1.10", "0", "<-v><7><0><10.2.1.10><8080>"},
	} {
		text := c.virtual + "\tchecktype=external\n\tcheckcommand=\"/usr/bin/printf <%s> -v\"\n"
		r, err := Read(LDirectord, File{Name: "f", Data: []byte(text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		table, _, problems := file.Decode("services.toml", []byte(r.Document()))
		if len(problems) > 0 || table.Services.Len() != 1 || table.Services.At(0).HealthCheck == nil {
			t.Fatal(problems, r.Document())
		}
		p := table.Services.At(0).HealthCheck.Probe
		args := strings.NewReplacer(endpointAddress, c.address, endpointPort, c.port).Replace(p.Args) // as an exec check does
		cmd := exec.Command(p.Command, strings.Split(args, "\x00")...)
		if out, err := cmd.Output(); string(out) != c.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.virtual, out, err, c.want)
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
