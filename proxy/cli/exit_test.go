package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
)

func TestTell(t *testing.T) {
	lacks := &kernel.MissingError{What: "this kernel has no IPVS", Hint: "modprobe ip_vs"}
	tools := &kernel.MissingError{What: "iptables is not installed", Hint: "apt-get install iptables"}
	rejected := &sources.RejectedError{Problems: []sources.Problem{{Message: "first"}, {Message: "second"}}}
	for _, c := range []struct {
		name string
		err  error
		code int
		want string
	}{
		{"nothing", nil, cli.OK, ""},
		{"plain", errors.New("broken"), cli.Failed, "svcproxy: broken\n"},
		{"answer", &cli.Error{Code: cli.Changes}, cli.Changes, ""},
		{"own code and hint", &cli.Error{Code: cli.Usage, Err: errors.New("unknown"), Hint: "look"}, cli.Usage, "svcproxy: unknown\nhint: look\n"},
		{"wrapped own code", fmt.Errorf("x: %w", &cli.Error{Code: cli.Usage, Err: errors.New("unknown")}), cli.Usage, "svcproxy: x: unknown\n"},
		{"all errors with a code", errors.Join(
			&cli.Error{Code: cli.Config, Err: rejected, Hint: "look"},
			fmt.Errorf("other: %w", &cli.Error{Code: cli.Config, Err: errors.New("third"), Hint: "look there"})),
			cli.Config, "svcproxy: first\nsvcproxy: second\nhint: look\nsvcproxy: other: third\nhint: look there\n"},
		{"an error with a code, and one without", errors.Join(errors.New("plain"), &cli.Error{Code: cli.Usage, Err: errors.New("unknown")}),
			cli.Usage, "svcproxy: plain\nsvcproxy: unknown\n"},
		{"all that is missing", errors.Join(fmt.Errorf("opening ipvs: %w", lacks), tools), cli.Missing,
			"svcproxy: opening ipvs: this kernel has no IPVS\nhint: modprobe ip_vs\nsvcproxy: iptables is not installed\nhint: apt-get install iptables\n"},
		{"all that was rejected", fmt.Errorf("the services files: %w", rejected), cli.Config, "svcproxy: first\nsvcproxy: second\n"},
		{"a closed file", &sources.RejectedError{Problems: []sources.Problem{{Message: "first", Denied: true}}}, cli.Permission,
			"svcproxy: first\nhint: run as root, or with CAP_NET_ADMIN and CAP_NET_RAW\n"},
		{"a closed file, and one that is not valid", &sources.RejectedError{Problems: []sources.Problem{{Message: "first", Denied: true}, {Message: "second"}}}, cli.Config,
			"svcproxy: first\nsvcproxy: second\n"},
		{"no configuration", &config.UnreadableError{Err: errors.New("f: is a directory")}, cli.Config, "svcproxy: reading the configuration: f: is a directory\n"},
		{"a closed one", &config.UnreadableError{Err: fs.ErrPermission}, cli.Permission,
			"svcproxy: reading the configuration: permission denied\nhint: run as root, or with CAP_NET_ADMIN and CAP_NET_RAW\n"},
		{"a program that failed", fmt.Errorf("running it: %w", exec.Command("false").Run()), cli.Failed, "svcproxy: running it: exit status 1\n"},
		{"permission before missing", errors.Join(lacks, fs.ErrPermission), cli.Permission,
			"svcproxy: this kernel has no IPVS\nhint: modprobe ip_vs\nsvcproxy: permission denied\nhint: run as root, or with CAP_NET_ADMIN and CAP_NET_RAW\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			if code := cli.Tell(&b, c.err); code != c.code || b.String() != c.want {
				t.Errorf("exit code %d, want %d, and text\n%swant\n%s", code, c.code, b.String(), c.want)
			}
		})
	}
}

// TestLines: the lines of an error with a code and a hint are those that Tell prints.
func TestLines(t *testing.T) {
	rejected := &sources.RejectedError{Problems: []sources.Problem{{Message: "first"}}}
	for _, err := range []error{rejected, &cli.Error{Code: cli.Config, Err: rejected, Hint: "look"}} {
		if got := cli.Lines(err); len(got) != 1 || got[0] != "first" {
			t.Errorf("%#v: got %q", err, got)
		}
	}
}
