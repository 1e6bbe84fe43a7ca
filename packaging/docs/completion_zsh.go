package docs

import (
	"bytes"
	"fmt"
	"strings"
)

func zsh(b *bytes.Buffer, p completed) {
	fmt.Fprintf(b, "#compdef %[1]s\n# %[1]s completion for zsh: %[1]s completion zsh\n\n_%[1]s() {\n\tlocal -a commands flags\n\tcommands=(\n", p.name)
	for _, c := range p.commands {
		fmt.Fprintf(b, "\t\t%s\n", single(c.name+":"+strings.ReplaceAll(c.short, ":", `\:`)))
	}
	b.WriteString("\t)\n\tflags=(\n")
	zshFlags(b, p.common)
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
		if len(c.flags) == 0 && c.values == nil && !c.files {
			continue
		}
		fmt.Fprintf(b, "\t%s)\n\t\tflags+=(\n", c.name)
		zshFlags(b, c.flags)
		switch {
		case c.values != nil:
			fmt.Fprintf(b, "\t\t%s\n", single("1:value:("+strings.Join(c.values, " ")+")"))
		case c.files:
			fmt.Fprintf(b, "\t\t%s\n", single("*:file:_files"))
		}
		b.WriteString("\t\t)\n\t\t;;\n")
	}
	fmt.Fprintf(b, "\tesac\n\t_arguments -s $flags\n}\n\nif [[ $funcstack[1] == _%[1]s ]]; then\n\t_%[1]s \"$@\"\nelse\n\tcompdef _%[1]s %[1]s\nfi\n", p.name)
}

func zshFlags(b *bytes.Buffer, flags []flag) {
	text := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)
	for _, f := range flags {
		value := ""
		if f.value != "" {
			value = "=:" + text.Replace(f.value) + ":"
			if f.files {
				value += "_files"
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
