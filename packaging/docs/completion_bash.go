package docs

import (
	"bytes"
	"fmt"
	"strings"
)

// bash writes a function for bash's own complete. It does not use bash-completion, which
// is not installed everywhere. bash passes the value after "=" as a word of its own.
func bash(b *bytes.Buffer, p completed) {
	fmt.Fprintf(b, "# %[1]s completion for bash: %[1]s completion bash\n\n_%[1]s() {\n", p.name)
	b.WriteString(`	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local command=` + p.commands[0].name + ` flags="` + strings.Join(dashed(p.common), " ") + `"
	if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* ]]; then
		command=${COMP_WORDS[1]}
	fi
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	COMPREPLY=()

	case $prev in
`)
	files, values := valued(p)
	if len(files) > 0 {
		fmt.Fprintf(b, "\t%s)\n\t\tcompopt -o filenames 2>/dev/null\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\treturn\n\t\t;;\n", strings.Join(files, " | "))
	}
	if len(values) > 0 {
		fmt.Fprintf(b, "\t%s)\n\t\treturn\n\t\t;;\n", strings.Join(values, " | "))
	}
	b.WriteString("\tesac\n\n\tcase $command in\n")
	for _, c := range p.commands {
		if len(c.flags) > 0 {
			fmt.Fprintf(b, "\t%s) flags+=\" %s\" ;;\n", c.name, strings.Join(dashed(c.flags), " "))
		}
	}
	b.WriteString(`	esac
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
		return
	fi
	if ((COMP_CWORD == 1)); then
`)
	var names []string
	for _, c := range p.commands {
		names = append(names, c.name)
	}
	fmt.Fprintf(b, "\t\tmapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\")\n\t\treturn\n\tfi\n", strings.Join(names, " "))
	b.WriteString("\n\tcase $command in\n")
	for _, c := range p.commands {
		switch {
		case c.values != nil:
			fmt.Fprintf(b, "\t%s) mapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\") ;;\n", c.name, strings.Join(c.values, " "))
		case c.files:
			fmt.Fprintf(b, "\t%s)\n\t\tcompopt -o filenames 2>/dev/null\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\t;;\n", c.name)
		}
	}
	fmt.Fprintf(b, "\tesac\n}\n\ncomplete -F _%[1]s %[1]s\n", p.name)
}

// valued are the flags that take a value: a file, or something else.
func valued(p completed) (files, others []string) {
	seen := map[string]bool{}
	add := func(flags []flag) {
		for _, f := range flags {
			if f.value == "" || seen[f.name] {
				continue
			}
			seen[f.name] = true
			into := &others
			if f.files {
				into = &files
			}
			*into = append(*into, "--"+f.name)
			if f.letter != "" {
				*into = append(*into, "-"+f.letter)
			}
		}
	}
	add(p.common)
	for _, c := range p.commands {
		add(c.flags)
	}
	return files, others
}
