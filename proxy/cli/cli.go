// Package cli is the command line: a table of commands, their help, and how the
// program ends. The first word chooses the command, and flags follow.
//
// It knows no command. Help goes to the writer that it is given; everything else
// is an error, and Tell turns that into text and an exit code.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"
)

// Command is one of a program's. Nouns look, verbs change.
type Command struct {
	Name  string
	Args  string // what may follow, for help: "[FILE...]"; "" when nothing may
	Short string // one line: what it does
	// Values are what the only argument may be, for completion; nil when it is
	// anything.
	Values []string
	// Hidden is one that no person is told of.
	Hidden bool
	// Flags adds its flags to those that all commands have; nil adds none.
	Flags func(*pflag.FlagSet)
	Run   func(ctx context.Context, args []string) error
}

// Program is a command line tool: a table of commands. The first is what flags
// alone mean.
type Program struct {
	Name     string
	Commands []Command
	Flags    func(*pflag.FlagSet) // of every command
}

// Run runs the command that argv, without the program's name, asks for. Help
// goes to out. What cannot be understood is an *Error of Usage.
func (p Program) Run(ctx context.Context, argv []string, out io.Writer) error {
	cmd, argv, err := p.choose(argv)
	if err != nil {
		return err
	}
	flags := p.FlagSet(cmd)
	switch err := flags.Parse(argv); {
	case errors.Is(err, pflag.ErrHelp):
		return p.help(out, cmd, flags)
	case err != nil:
		return usage(fmt.Sprintf("%s %s --help lists the flags", p.Name, cmd.Name), "%w", err)
	}
	args := flags.Args()
	if len(args) > 0 && cmd.Args == "" {
		return usage("", "%s takes no arguments, have %q", cmd.Name, args)
	}
	return cmd.Run(ctx, args)
}

func (p Program) choose(argv []string) (Command, []string, error) {
	if len(argv) == 0 || len(argv[0]) > 0 && argv[0][0] == '-' {
		return p.Commands[0], argv, nil
	}
	for _, c := range p.Commands {
		if c.Name == argv[0] {
			return c, argv[1:], nil
		}
	}
	return Command{}, nil, usage(p.Name+" --help lists the commands", "unknown command %q", argv[0])
}

// Visible are the commands that a person is told of.
func (p Program) Visible() []Command {
	return slices.DeleteFunc(slices.Clone(p.Commands), func(c Command) bool { return c.Hidden })
}

// FlagSet is all flags of a command.
func (p Program) FlagSet(c Command) *pflag.FlagSet {
	flags := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	p.Flags(flags)
	if c.Flags != nil {
		c.Flags(flags)
	}
	return flags
}

func (p Program) help(w io.Writer, cmd Command, flags *pflag.FlagSet) error {
	fmt.Fprintf(w, "%s %s %s\n\n%s\n", p.Name, cmd.Name, cmd.Args, cmd.Short)
	if cmd.Name == p.Commands[0].Name {
		fmt.Fprint(w, "\nCommands:\n")
		for _, c := range p.Visible() {
			fmt.Fprintf(w, "  %-24s %s\n", c.Name+" "+c.Args, c.Short)
		}
	}
	_, err := fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsages())
	return err
}

func usage(hint, format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...), Hint: hint}
}
