package docs

import (
	"bytes"
	"fmt"
	"strings"
)

func fish(b *bytes.Buffer, p completed) {
	fmt.Fprintf(b, "# %[1]s completion for fish: %[1]s completion fish\n\ncomplete -c %[1]s -f\n", p.name)
	for _, c := range p.commands {
		fmt.Fprintf(b, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", p.name, c.name, fishText(c.short))
	}
	for _, f := range p.common {
		fishFlag(b, p.name, "", f)
	}
	for i, c := range p.commands {
		when := "__fish_seen_subcommand_from " + c.name
		if i == 0 { // the default command
			when += "; or __fish_use_subcommand"
		}
		for _, f := range c.flags {
			fishFlag(b, p.name, when, f)
		}
		switch {
		case c.values != nil:
			fmt.Fprintf(b, "complete -c %s -n %s -a %s\n", p.name, fishText(when), fishText(strings.Join(c.values, " ")))
		case c.names != "":
			fmt.Fprintf(b, "complete -c %s -n %s -a %s\n", p.name, fishText(when), fishText(namesCommand(p.name, c.names)))
		case c.files:
			fmt.Fprintf(b, "complete -c %s -n %s -F\n", p.name, fishText(when))
		}
	}
}

func fishFlag(b *bytes.Buffer, program, when string, f flag) {
	fmt.Fprintf(b, "complete -c %s", program)
	if when != "" {
		fmt.Fprintf(b, " -n %s", fishText(when))
	}
	fmt.Fprintf(b, " -l %s", f.name)
	if f.letter != "" {
		fmt.Fprintf(b, " -s %s", f.letter)
	}
	switch {
	case f.files:
		b.WriteString(" -r -F")
	case f.value != "" && f.words != nil:
		b.WriteString(" -x -a " + fishText(strings.Join(f.words, " ")))
	case f.value != "" && f.names != "":
		b.WriteString(" -x -a " + fishText(namesCommand(program, f.names)))
	case f.value != "":
		b.WriteString(" -x")
	}
	fmt.Fprintf(b, " -d %s\n", fishText(f.usage))
}

func namesCommand(program, names string) string {
	return fmt.Sprintf("(%s names %s 2>/dev/null)", program, names)
}

func fishText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
