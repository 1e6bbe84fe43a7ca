package docs

import (
	"bytes"
	"fmt"
	"strings"
)

func zsh(b *bytes.Buffer, p completed) {
	fmt.Fprintf(b, "#compdef %[1]s\n# %[1]s completion for zsh: %[1]s completion zsh\n\n_%[1]s_names() {\n\tlocal -a "+
		"offers\n\toffers=(${(f)\"$(%[1]s names $1 2>/dev/null)\"})\n\tcompadd -a offers\n}\n\n_%[1]s() {\n\tlocal -a "+
		"commands flags\n\tcommands=(\n", p.name)
	for _, c := range p.commands {
		fmt.Fprintf(b, "\t\t%s\n", single(c.name+":"+strings.ReplaceAll(c.short, ":", `\:`)))
	}
	b.WriteString("\t)\n\tflags=(\n")
	zshFlags(b, p.name, p.common)
	b.WriteString("\t)\n\n\tlocal command=" + p.commands[0].name + `
	if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
		_describe -t commands command commands
		return
	fi
	if [[ $words[2] != -* ]]; then
		command=$words[2]
		shift words
		((CURRENT--))
	fi
	case $command in
`)
	for _, c := range p.commands {
		if len(c.flags) == 0 && c.values == nil && !c.files && c.names == "" {
			continue
		}
		fmt.Fprintf(b, "\t%s)\n\t\tflags+=(\n", c.name)
		zshFlags(b, p.name, c.flags)
		switch {
		case c.values != nil:
			fmt.Fprintf(b, "\t\t%s\n", single("1:value:("+strings.Join(c.values, " ")+")"))
		case c.names != "":
			fmt.Fprintf(b, "\t\t%s\n", single("*:name: _"+p.name+"_names "+c.names))
		case c.files:
			fmt.Fprintf(b, "\t\t%s\n", single("*:file:_files"))
		}
		b.WriteString("\t\t)\n\t\t;;\n")
	}
	fmt.Fprintf(b, "\tesac\n\t_arguments -s $flags\n}\n\nif [[ $funcstack[1] == _%[1]s ]]; then\n\t_%[1]s "+
		"\"$@\"\nelse\n\tcompdef _%[1]s %[1]s\nfi\n", p.name)
}

func zshFlags(b *bytes.Buffer, program string, flags []flag) {
	text := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)
	for _, f := range flags {
		value := ""
		if f.value != "" {
			value = "=:" + text.Replace(f.value) + ":"
			switch {
			case f.files:
				value += "_files"
			case f.words != nil:
				value += "(" + strings.Join(f.words, " ") + ")"
			case f.names != "":
				value += " _" + program + "_names " + f.names
			}
		}
		sign, rest, _ := strings.Cut(value, ":")
		if value != "" {
			rest = ":" + rest
		}
		fmt.Fprintf(b, "\t\t%s\n", single("--"+f.name+sign+"["+text.Replace(f.usage)+"]"+rest))
		if f.letter != "" {
			if sign != "" {
				sign = "+"
			}
			fmt.Fprintf(b, "\t\t%s\n", single("-"+f.letter+sign+"["+text.Replace(f.usage)+"]"+rest))
		}
	}
}

// single quotes s as one word of a shell.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
