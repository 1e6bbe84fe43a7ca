package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// helpWidth is the column at which the usage of flags is wrapped.
const helpWidth = 100

// flagsTopic is the help topic with the flags that all commands accept.
const flagsTopic = "flags"

// Topics are what Help explains: each command that is not hidden, and the flags that
// all commands accept.
func (p Program) Topics() []string {
	var topics []string
	for _, c := range p.Visible() {
		topics = append(topics, c.Name)
	}
	return append(topics, flagsTopic)
}

// Help explains a topic, or the program if there is none.
func (p Program) Help(w io.Writer, args []string) error {
	switch {
	case len(args) == 0:
		return p.overview(w)
	case len(args) > 1:
		return p.usage("want one command or %q, have %s", flagsTopic, Given(args))
	case args[0] == flagsTopic:
		return p.helpFlags(w)
	}
	c, ok := p.command(args[0])
	if !ok {
		return p.unknown("no help on %q", args[0])
	}
	return p.helpCommand(w, c)
}

func (p Program) overview(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n", strings.TrimSpace(p.About), p.Name)
	for i, c := range p.Visible() {
		short := c.Short
		if i == 0 {
			short += " (the default)"
		}
		usage := strings.TrimSpace(c.Name + " " + c.Args)
		if len(usage) > 22 {
			usage += "\n" + strings.Repeat(" ", 24)
		}
		fmt.Fprintf(&b, "  %-22s %s\n", usage, short)
	}
	fmt.Fprintf(&b, "\n%s COMMAND --help shows the flags of a command.\n%s", p.Name, p.moreFlags())
	_, err := io.WriteString(w, b.String())
	return err
}

// helpCommand explains a command: how it is used and how it ends, then its own flags,
// then the few common ones that matter to it.
func (p Program) helpCommand(w io.Writer, c Command) error {
	own, common := p.split(c)
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s %s", p.Name, c.Name)
	if own.HasAvailableFlags() || common.HasAvailableFlags() {
		b.WriteString(" [FLAGS]")
	}
	fmt.Fprintf(&b, "%s\n\n%s%s.\n", strings.TrimRight(" "+c.Args, " "), strings.ToUpper(c.Short[:1]), c.Short[1:])
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Long))
	}
	if len(c.Examples) > 0 {
		fmt.Fprintf(&b, "\nExamples:\n  %s\n", strings.Join(c.Examples, "\n  "))
	}
	if len(c.Exits) > 0 {
		b.WriteString("\nExit codes:\n")
		for _, e := range c.Exits {
			fmt.Fprintf(&b, "  %-3d %s\n", e.Code, e.When)
		}
	}
	if own.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsagesWrapped(helpWidth))
	}
	if common.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nCommon flags:\n%s\n%s", common.FlagUsagesWrapped(helpWidth), p.moreFlags())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// split returns a command's own flags, and those of the program that its help shows.
func (p Program) split(c Command) (own, common *pflag.FlagSet) {
	every := p.FlagSet(Command{})
	own, common = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	p.FlagSet(c).VisitAll(func(f *pflag.Flag) {
		if every.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	for _, name := range c.Common {
		common.AddFlag(every.Lookup(name))
	}
	return own, common
}

func (p Program) moreFlags() string {
	return fmt.Sprintf("%s help %s shows %s.\n", p.Name, flagsTopic, p.FlagsShort)
}

func (p Program) helpFlags(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n\n%s", strings.TrimSpace(p.FlagsLong), p.FlagSet(Command{}).FlagUsagesWrapped(helpWidth))
	return err
}
