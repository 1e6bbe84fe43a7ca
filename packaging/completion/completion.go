// Package completion writes completion scripts for bash, zsh and fish from the
// table of commands, so that they know what the program knows.
//
// The scripts are plain text without a call back into the program: completing a
// line starts nothing, and works where svcproxy may not run.
package completion

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// Shells are those that Write knows.
var Shells = []string{"bash", "zsh", "fish"}

// Write writes the program's completion script for a shell.
func Write(w io.Writer, shell string, p cli.Program) error {
	write, ok := map[string]func(*bytes.Buffer, program){"bash": bash, "zsh": zsh, "fish": fish}[shell]
	if !ok {
		return fmt.Errorf("no completion for %q: want one of %q", shell, Shells)
	}
	var b bytes.Buffer
	write(&b, read(p))
	_, err := w.Write(b.Bytes())
	return err
}

// program is what a script says of a program.
type program struct {
	name     string
	commands []entry
	common   []flag // of every command
}

type entry struct {
	name, short string
	flags       []flag // of its own
	values      []string
	files       bool // arguments are files
}

type flag struct {
	name, letter, usage string
	value               string // what it takes, for people; "" is nothing
	files               bool   // what it takes is a file
}

func read(p cli.Program) program {
	common := flags(p.FlagSet(cli.Command{}))
	out := program{name: p.Name, common: common}
	for _, c := range p.Visible() {
		own := slices.DeleteFunc(flags(p.FlagSet(c)), func(f flag) bool {
			return slices.ContainsFunc(common, func(g flag) bool { return f.name == g.name })
		})
		out.commands = append(out.commands, entry{name: c.Name, short: c.Short, flags: own, values: c.Values, files: c.Args == "[FILE...]"})
	}
	return out
}

// flags are those that help shows.
func flags(fs *pflag.FlagSet) []flag {
	var out []flag
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		if f.NoOptDefVal != "" {
			value = ""
		}
		file := value == "FILE" || f.Name == "kubeconfig"
		name := f.Name
		letter := f.Shorthand
		if len(name) == 1 {
			letter = name // pflag knows it as --v, too
		}
		out = append(out, flag{name: name, letter: letter, usage: usage, value: value, files: file})
	})
	return append(out, flag{name: "help", letter: "h", usage: "say what the command does, and its flags"})
}

// words are how the flags are written.
func words(flags []flag) []string {
	var out []string
	for _, f := range flags {
		out = append(out, "--"+f.name)
	}
	return out
}
