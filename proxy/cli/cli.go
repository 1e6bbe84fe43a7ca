// Package cli is the command line: a table of commands, their help, and how the
// program ends. The first word chooses the command, and flags follow.
//
// It knows no command. Help goes to the writer that it is given; everything else
// is an error, and Tell turns that into text and an exit code.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"
)

// Command is one command of a program. Commands that look are nouns, commands that
// change something are verbs.
type Command struct {
	Name  string
	Args  string // its arguments, for help: "[FILE...]"; "" if it takes none
	Short string // what it does, in one line without a full stop
	Long  string // what else its user needs to know, for help; may be empty
	// Examples are whole command lines, the most common first.
	Examples []string
	// Exits are the exit codes that mean something special here. Every command may
	// also end with OK, Failed and Usage.
	Exits []Exit
	// Values are the words that its only argument may be, for completion; nil if it
	// may be anything.
	Values []string
	// Hidden commands are not in the help.
	Hidden bool
	// Flags adds the command's own flags; nil adds none.
	Flags func(*pflag.FlagSet)
	// Common are the names of the program's flags that its help shows.
	Common []string
	Run    func(ctx context.Context, args []string) error
}

// Offer says which words a flag may have, for completion.
func Offer(fs *pflag.FlagSet, flag string, words ...string) {
	if err := fs.SetAnnotation(flag, offered, words); err != nil {
		panic(err) // there is no such flag
	}
}

// Offered are the words that a flag may have; nil if it may have others.
func Offered(f *pflag.Flag) []string {
	if v, ok := f.Value.(interface{ Words() []string }); ok {
		return v.Words()
	}
	return f.Annotations[offered]
}

const offered = "words"

// Exit is an exit code of one command and when it has it: "a file is not valid".
type Exit struct {
	Code int
	When string
}

// Program is a command line tool: a table of commands. Without a command word the
// first one runs.
type Program struct {
	Name     string
	About    string // what the program is for
	Commands []Command
	// Flags adds the flags that every command accepts. They are too many for the help
	// of each command: that shows those in Common, and names the topic with the rest.
	Flags      func(*pflag.FlagSet)
	FlagsShort string // what they are, to follow "shows"
	FlagsLong  string // the introduction of their list
	// Near returns the candidate that a mistyped word was probably meant to be, or "".
	Near func(word string, candidates []string) string
}

// Run runs the command that argv, without the program's name, asks for. Help goes to
// out. If argv is not valid the error is an *Error with the code Usage.
func (p Program) Run(ctx context.Context, argv []string, out io.Writer) error {
	cmd, named := p.Commands[0], false
	if len(argv) > 0 && (argv[0] == "" || argv[0][0] != '-') {
		if cmd, named = p.command(argv[0]); !named {
			return p.unknown("unknown command %q", argv[0])
		}
		argv = argv[1:]
	}
	hint := ""
	if !named {
		hint = p.first(argv)
	}
	flags := p.FlagSet(cmd)
	switch err := flags.Parse(argv); {
	case errors.Is(err, pflag.ErrHelp) && named:
		return p.helpCommand(out, cmd)
	case errors.Is(err, pflag.ErrHelp):
		return p.overview(out)
	case err != nil:
		return Errorf(Usage, cmp.Or(hint, p.Name+" "+cmd.Name+" --help lists the flags"), "%w", p.meant(flags, plainly(err)))
	}
	args := flags.Args()
	if len(args) > 0 && cmd.Args == "" {
		return Errorf(Usage, hint, "%s takes no arguments, have %s", cmd.Name, Given(args))
	}
	return cmd.Run(ctx, args)
}

// first is the hint for a command line that has flags before the command: the same one with the command
// first. It is "" if there is no command after the flags.
func (p Program) first(argv []string) string {
	for i, word := range argv {
		if _, ok := p.command(word); !ok {
			continue
		}
		// A word may also be the value of a flag.
		before := p.FlagSet(p.Commands[0])
		if err := before.Parse(argv[:i]); err == nil && before.NArg() == 0 {
			return "the command comes first: " + shellLine(slices.Concat([]string{p.Name, word}, argv[:i], argv[i+1:]))
		}
	}
	return ""
}

func (p Program) command(name string) (Command, bool) {
	i := slices.IndexFunc(p.Commands, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return Command{}, false
	}
	return p.Commands[i], true
}

// Visible are the commands that help shows.
func (p Program) Visible() []Command {
	return slices.DeleteFunc(slices.Clone(p.Commands), func(c Command) bool { return c.Hidden })
}

// FlagSet has all flags that a command accepts.
func (p Program) FlagSet(c Command) *pflag.FlagSet {
	flags := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	p.Flags(flags)
	if c.Flags != nil {
		c.Flags(flags)
	}
	return flags
}

// plainly is an error of pflag without the words of Go's parsers.
func plainly(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	want, ok := map[string]string{
		"bool": "true or false", "int": "a whole number", "duration": `a duration such as "30s", "5m" or "3h"`,
	}[invalid.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// meant adds to the error of an unknown flag which one may have been meant.
func (p Program) meant(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			names = append(names, f.Name)
		}
	})
	if name := p.Near(unknown.GetSpecifiedName(), names); name != "" {
		return fmt.Errorf("%w, did you mean --%s?", err, name)
	}
	return err
}

// unknown is the error for a word that is no command, with what may have been meant.
func (p Program) unknown(format, word string) error {
	if meant := p.Near(word, p.Topics()); meant != "" {
		return p.usage(format+", did you mean %q?", word, meant)
	}
	return p.usage(format, word)
}

func (p Program) usage(format string, args ...any) error {
	return Errorf(Usage, p.Name+" --help lists the commands", format, args...)
}
