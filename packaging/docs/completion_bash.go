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

	case "$command $prev" in
`)
	bashValues(b, p.name, "*", p.common)
	for _, c := range p.commands {
		bashValues(b, p.name, c.name, c.flags)
	}
	b.WriteString("\tesac\n\tcase $prev in\n")
	files, values := valued(p)
	if len(files) > 0 {
		fmt.Fprintf(b, "\t%s)\n\t\tcompopt -o filenames 2>/dev/null\n\t\tmapfile -t COMPREPLY < <(compgen -f -- "+
			"\"$cur\")\n\t\treturn\n\t\t;;\n", strings.Join(files, " | "))
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
	fmt.Fprintf(b, "\t\tmapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\")\n\t\treturn\n\tfi\n",
		strings.Join(names, " "))
	b.WriteString("\n\tcase $command in\n")
	for _, c := range p.commands {
		switch {
		case c.values != nil:
			fmt.Fprintf(b, "\t%s) mapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\") ;;\n", c.name,
				strings.Join(c.values, " "))
		case c.names != "":
			fmt.Fprintf(b, bashNames, c.name, p.name, c.names)
		case c.files:
			fmt.Fprintf(b, "\t%s)\n\t\tcompopt -o filenames 2>/dev/null\n\t\tmapfile -t COMPREPLY < <(compgen -f -- "+
				"\"$cur\")\n\t\t;;\n", c.name)
		}
	}
	fmt.Fprintf(b, "\tesac\n}\n\ncomplete -F _%[1]s %[1]s\n", p.name)
}

// bashNames offers names of the running program. bash splits words at the colons of an IPv6 address and replaces what
// follows the last one, so the whole word is read from the line and the offers begin behind that colon.
const bashNames = `	%s)
		local word=${COMP_LINE:0:COMP_POINT}
		word=${word##* }
		local behind=${word##*:}
		mapfile -t COMPREPLY < <(compgen -W "$(%s names %s 2>/dev/null)" -- "$word")
		if [[ $word == *:* && ${COMP_WORDBREAKS-} == *:* ]] && ((${#COMPREPLY[@]})); then
			COMPREPLY=("${COMPREPLY[@]#"${word%%"$behind"}"}")
		fi
		;;
`

// bashValues offers the values of a command's flags.
func bashValues(b *bytes.Buffer, program, command string, flags []flag) {
	for _, f := range flags {
		words := strings.Join(f.words, " ")
		if f.names != "" {
			words = "$(" + program + " names " + f.names + " 2>/dev/null)"
		}
		if words == "" || f.value == "" {
			continue
		}
		pattern := fmt.Sprintf("%s' --%s'", command, f.name)
		if f.letter != "" {
			pattern += fmt.Sprintf(" | %s' -%s'", command, f.letter)
		}
		fmt.Fprintf(b, "\t%s)\n\t\tmapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\")\n\t\treturn\n\t\t;;\n", pattern,
			words)
	}
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
