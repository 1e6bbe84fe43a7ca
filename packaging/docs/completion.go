package docs

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// Shells are the shells that Completion knows.
var Shells = []string{"bash", "zsh", "fish"}

// Completion writes the program's completion script for a shell. The script calls the program for names of services and
// endpoints only, so that the rest works where svcproxy does not run.
func Completion(w io.Writer, shell string, p cli.Program) error {
	write, ok := map[string]func(*bytes.Buffer, completed){"bash": bash, "zsh": zsh, "fish": fish}[shell]
	if !ok {
		return fmt.Errorf("no completion for %q: want one of %q", shell, Shells)
	}
	var b bytes.Buffer
	write(&b, readProgram(p))
	_, err := w.Write(b.Bytes())
	return err
}

// completed is what a script knows of a program.
type completed struct {
	name     string
	commands []entry
	common   []flag // of every command
}

type entry struct {
	name, short string
	flags       []flag // of its own
	values      []string
	files       bool   // arguments are files
	names       string // arguments are what svcproxy names prints for this word; "" if they are not
}

type flag struct {
	name, letter, usage string
	value               string   // the name of its value in help; "" if it takes none
	files               bool     // its value is a file
	words               []string // that its value may be; nil if it may have others
	names               string   // as of entry
}

func readProgram(p cli.Program) completed {
	common := visibleFlags(p.FlagSet(cli.Command{}))
	out := completed{name: p.Name, common: common}
	for _, c := range p.Visible() {
		own := slices.DeleteFunc(visibleFlags(p.FlagSet(c)), func(f flag) bool {
			return slices.ContainsFunc(common, func(g flag) bool { return f.name == g.name })
		})
		out.commands = append(out.commands, entry{name: c.Name, short: c.Short, flags: own, values: c.Values,
			files: strings.Contains(c.Args, "FILE"), names: namesOf(c.Args)})
	}
	return out
}

// namesOf is what the running daemon has names for, by the word that help uses.
func namesOf(args string) string {
	switch {
	case strings.Contains(args, "SERVICE"):
		return "services"
	case strings.Contains(args, "TARGET"):
		return "targets"
	}
	return ""
}

// visibleFlags are the flags that help shows.
func visibleFlags(fs *pflag.FlagSet) []flag {
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
			letter = name // pflag accepts it as --v too
		}
		out = append(out, flag{name: name, letter: letter, usage: usage, value: value, files: file, words: cli.Offered(f),
			names: namesOf(value)})
	})
	return append(out, flag{name: "help", letter: "h", usage: "explain the command and its flags"})
}

// dashed are the flags as they are typed.
func dashed(flags []flag) []string {
	var out []string
	for _, f := range flags {
		out = append(out, "--"+f.name)
	}
	return out
}
