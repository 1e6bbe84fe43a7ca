package cli_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// program notes what is run.
func program(ran *string) cli.Program {
	loud := false
	run := func(name string) func(context.Context, []string) error {
		return func(_ context.Context, args []string) error {
			words := append([]string{name}, args...)
			if loud {
				words = append(words, "loud")
			}
			*ran = strings.Join(words, " ")
			return nil
		}
	}
	return cli.Program{
		Name:  "prog",
		Flags: func(fs *pflag.FlagSet) { fs.BoolVar(&loud, "loud", false, "be loud") },
		Commands: []cli.Command{
			{Name: "run", Short: "go on", Run: run("run")},
			{Name: "check", Args: "[FILE...]", Short: "look", Run: run("check")},
		},
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		argv string
		want string // what ran
		out  string // printed
		err  string
	}{
		{argv: "", want: "run"},
		{argv: "--loud", want: "run loud"},
		{argv: "run", want: "run"},
		{argv: "check a b --loud", want: "check a b loud"},
		{argv: "--help", out: "Commands:\n  run                      go on\n"},
		{argv: "check --help", out: "prog check [FILE...]\n\nlook\n\nFlags:\n      --loud"},
		{argv: "frob", err: `unknown command "frob"`},
		{argv: "run a", err: `run takes no arguments, have ["a"]`},
		{argv: "run --quiet", err: "unknown flag: --quiet"},
	} {
		t.Run(c.argv, func(t *testing.T) {
			var ran string
			var out strings.Builder
			err := program(&ran).Run(t.Context(), strings.Fields(c.argv), &out)
			if ran != c.want || !strings.Contains(out.String(), c.out) {
				t.Errorf("ran %q, want %q; printed %q", ran, c.want, out.String())
			}
			var e *cli.Error
			if c.err == "" && err != nil || c.err != "" && (!errors.As(err, &e) || e.Code != cli.Usage || e.Err.Error() != c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}
