package cli_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// program records which command ran, with its arguments.
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
		Name: "prog", About: "prog goes on.", FlagsShort: "all flags", FlagsLong: "All flags.", Near: fields.Near,
		Flags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&loud, "loud", false, "be loud")
			fs.Bool("rare", false, "be rare")
			fs.String("name", "", "have a `NAME`")
		},
		Commands: []cli.Command{
			{Name: "run", Short: "go on", Run: run("run")},
			{Name: "check", Args: "[FILE...]", Short: "look", Long: "It looks.", Common: []string{"loud"}, Run: run("check"),
				Examples: []string{"prog check a"}, Exits: []cli.Exit{{Code: cli.Config, When: "a file is not valid"}},
				Flags: func(fs *pflag.FlagSet) {
					fs.Bool("twice", false, "look twice")
					fs.Int("times", 0, "look `N` times")
				}},
			{Name: "chores", Short: "clean", Hidden: true, Run: run("chores")},
		},
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		argv string
		want string // what ran
		out  string // printed
		err  string
		hint string // "" = any
	}{
		{argv: "", want: "run"},
		{argv: "--loud", want: "run loud"},
		{argv: "run", want: "run"},
		{argv: "check a b --loud", want: "check a b loud"},
		{argv: "--help", out: "prog goes on.\n\nUsage: prog COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n" +
			"  run                    go on (the default)\n  check [FILE...]        look\n\n" +
			"prog COMMAND --help shows the flags of a command.\nprog help flags shows all flags.\n"},
		{argv: "run --help", out: "Usage: prog run\n\nGo on.\n"},
		{argv: "check --help", out: "Usage: prog check [FLAGS] [FILE...]\n\nLook.\n\nIt looks.\n\n" +
			"Examples:\n  prog check a\n\nExit codes:\n  3   a file is not valid\n\nFlags:\n      --times N   look N times\n      --twice     look twice\n\n" +
			"Common flags:\n      --loud   be loud\n\nprog help flags shows all flags.\n"},
		{argv: "frob", err: `unknown command "frob"`},
		{argv: "chekc", err: `unknown command "chekc", did you mean "check"?`},
		{argv: "check --times=x", err: `--times "x" is not a whole number`},
		{argv: "check --twice=x", err: `--twice "x" is not true or false`},
		{argv: "run a", err: `run takes no arguments, have "a"`},
		{argv: "run --quiet", err: "unknown flag: --quiet"},
		{argv: "--loud check a b", err: `run takes no arguments, have "check" "a" "b"`, hint: "the command comes first: prog check --loud a b"},
		{argv: "--name check check it's", err: `run takes no arguments, have "check" "it's"`, hint: `the command comes first: prog check --name check 'it'\''s'`},
		{argv: "--loud check --times=2", err: "unknown flag: --times", hint: "the command comes first: prog check --loud --times=2"},
		{argv: "--quiet check", err: "unknown flag: --quiet", hint: "prog run --help lists the flags"},
	} {
		t.Run(c.argv, func(t *testing.T) {
			var ran string
			var out strings.Builder
			err := program(&ran).Run(t.Context(), strings.Fields(c.argv), &out)
			if ran != c.want || out.String() != c.out {
				t.Errorf("ran %q, want %q; printed %q", ran, c.want, out.String())
			}
			var e *cli.Error
			if c.err == "" && err != nil || c.err != "" && (!errors.As(err, &e) || e.Code != cli.Usage || e.Err.Error() != c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if c.hint != "" && (e == nil || e.Hint != c.hint) {
				t.Errorf("error %+v, want the hint %q", e, c.hint)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	p := program(new(string))
	for _, c := range []struct{ topic, want, err string }{
		{"", "prog goes on.", ""},
		{"check", "Usage: prog check", ""},
		{"chores", "Usage: prog chores", ""},
		{"flags", "All flags.\n\n      --loud        be loud\n      --name NAME   have a NAME\n      --rare        be rare\n", ""},
		{"frob", "", `no help on "frob"`},
		{"check flags", "", `want one command or "flags", have "check" "flags"`},
	} {
		var out strings.Builder
		err := p.Help(&out, strings.Fields(c.topic))
		var e *cli.Error
		if !strings.HasPrefix(out.String(), c.want) || (c.err != "") != (err != nil) || err != nil && (!errors.As(err, &e) || e.Code != cli.Usage || e.Err.Error() != c.err) {
			t.Errorf("%q: %q, %v", c.topic, out.String(), err)
		}
	}
	if topics := p.Topics(); !slices.Equal(topics, []string{"run", "check", "flags"}) {
		t.Errorf("topics %q", topics)
	}
}
