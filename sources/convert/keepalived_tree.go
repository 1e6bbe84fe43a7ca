package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// statement is a line of keepalived.conf: words, and a block in braces if there is one.
type statement struct {
	at    sources.Origin
	words []string
	block []*statement
}

// value is the nth word, "" if there is none. The first is the keyword.
func (s *statement) value(n int) string {
	if n < len(s.words) {
		return s.words[n]
	}
	return ""
}

// includes are keepalived's words for an include. They differ in what they complain about.
var includes = []string{"include", "includer", "includem", "includew", "includeb", "includea"}

// Files may include each other so deep, and there may be so many.
const (
	maxDepth    = 50
	maxIncluded = 100_000
)

// keepalivedTree reads statements.
type keepalivedTree struct {
	open      Open
	files     int // read so far
	depth     int // files that include the one that is read
	variables map[string]string
	notes     []Note
}

func (t *keepalivedTree) note(at sources.Origin, format string, args ...any) {
	t.notes = append(t.notes, Note{Origin: at, Message: fmt.Sprintf(format, args...), Changes: true})
}

// read returns the statements of a file and of those that it includes.
func (t *keepalivedTree) read(f File) ([]*statement, error) {
	if t.depth++; t.depth > maxDepth {
		return nil, fmt.Errorf("%s: more than %d files include each other", f.Name, maxDepth)
	}
	defer func() { t.depth-- }()
	if t.files++; t.files > maxIncluded {
		return nil, fmt.Errorf("%s: more than %d files are included", f.Name, maxIncluded)
	}
	root := &statement{}
	open := []*statement{root} // the blocks that are open
	line := 0
	for text := range strings.Lines(string(f.Data)) {
		line++
		at := sources.Origin{Source: string(Keepalived), File: f.Name, Line: line}
		words, err := keepalivedWords(text)
		if err == nil {
			err = generated(words)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if words = t.conditions(at, words); len(words) == 0 {
			continue
		}
		if slices.Contains(includes, words[0]) && len(words) == 2 {
			more, err := t.include(at, words[0], words[1], f.Name)
			if err != nil {
				return nil, err
			}
			top := open[len(open)-1]
			top.block = append(top.block, more...)
			continue
		}
		if open, err = t.line(at, t.expand(words), open); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	if len(open) > 1 {
		return nil, fmt.Errorf("%s: the block of %q has no closing brace", open[len(open)-1].at, strings.Join(open[len(open)-1].words, " "))
	}
	return root.block, nil
}

// generated returns an error for lines that stand for several others. Without them the configuration is another one.
func generated(words []string) error {
	switch {
	case len(words) == 0:
		return nil
	case strings.HasPrefix(words[0], "~"):
		name, _, _ := strings.Cut(words[0], "(")
		return fmt.Errorf("%s: import repeats no lines; write them out", name)
	case words[len(words)-1] == `\`:
		return fmt.Errorf("import reads no definition of several lines; write its lines out where %s is used", words[0])
	}
	return nil
}

// line adds the words of a line to the open blocks. A brace may stand on the next line.
func (t *keepalivedTree) line(at sources.Origin, words []string, open []*statement) ([]*statement, error) {
	fresh := true
	for _, w := range words {
		top := open[len(open)-1]
		switch {
		case w == "{" && len(top.block) == 0:
			return nil, fmt.Errorf("a brace opens a block that has no name")
		case w == "{":
			open, fresh = append(open, top.block[len(top.block)-1]), true
		case w == "}" && len(open) == 1:
			return nil, fmt.Errorf("a brace closes no block")
		case w == "}":
			open, fresh = open[:len(open)-1], true
		case fresh:
			top.block, fresh = append(top.block, &statement{at: at, words: []string{unquoted(w)}}), false
		default:
			last := top.block[len(top.block)-1]
			last.words = append(last.words, unquoted(w))
		}
	}
	return open, nil
}

// keepalivedWords splits a line into words and braces. A word in quotes keeps its first quote, so that it is no brace.
func keepalivedWords(text string) ([]string, error) {
	var words []string
	var b strings.Builder
	in, quote := false, rune(0)
	end := func() {
		if in {
			words = append(words, b.String())
		}
		b.Reset()
		in = false
	}
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0 && r == '\n':
			return nil, fmt.Errorf("a quote is not closed")
		case quote != 0:
			b.WriteRune(r)
		case r == '"' || r == '\'':
			if !in {
				b.WriteByte('"')
			}
			in, quote = true, r
		case r == '#' || r == '!' && !in:
			end()
			return words, nil
		case r == '{' && strings.HasSuffix(b.String(), "$"), r == '}' && strings.Contains(b.String(), "${"):
			b.WriteRune(r)
		case r == '{' || r == '}':
			end()
			words = append(words, string(r))
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			end()
		default:
			in = true
			b.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is not closed")
	}
	end()
	return words, nil
}

func unquoted(word string) string { return strings.TrimPrefix(word, `"`) }

// conditions takes definitions of variables and lines with a condition out: which configuration
// they belong to is said on keepalived's command line.
func (t *keepalivedTree) conditions(at sources.Origin, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	switch first := words[0]; {
	case strings.HasPrefix(first, "@"):
		t.note(at, "a line with the condition %s", first)
		return nil
	case strings.HasPrefix(first, "$") && strings.Contains(first, "="):
		name, value, _ := strings.Cut(strings.TrimPrefix(first, "$"), "=")
		t.variables[name] = strings.Join(append([]string{value}, words[1:]...), " ")
		return nil
	}
	return words
}

// expand puts the values of variables in. A value may have several words, but in quotes it is a part of one.
func (t *keepalivedTree) expand(words []string) []string {
	var all []string
	for _, w := range words {
		if !strings.Contains(w, "$") {
			all = append(all, w)
			continue
		}
		w = t.substitute(w)
		if strings.HasPrefix(w, `"`) {
			all = append(all, w)
		} else {
			all = append(all, strings.Fields(w)...)
		}
	}
	return all
}

// substitute replaces variables, and those within their values. It ends with variables that name each other.
func (t *keepalivedTree) substitute(word string) string {
	for range 10 {
		next := t.replace(word)
		if next == word || len(next) > 1<<12 {
			break
		}
		word = next
	}
	return word
}

func (t *keepalivedTree) replace(word string) string {
	for name, value := range t.variables {
		word = strings.ReplaceAll(word, "${"+name+"}", value)
		word = replaceName(word, "$"+name, value)
	}
	return word
}

// replaceName replaces a variable without braces where it ends: at a space, a comma, a parenthesis or the end.
func replaceName(text, name, value string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, name)
		if i < 0 {
			return b.String() + text
		}
		rest := text[i+len(name):]
		b.WriteString(text[:i])
		if rest == "" || strings.ContainsRune(" \t,)", rune(rest[0])) {
			b.WriteString(value)
		} else {
			b.WriteString(name)
		}
		text = rest
	}
}

// include reads the files that an include names.
func (t *keepalivedTree) include(at sources.Origin, word, pattern, from string) ([]*statement, error) {
	if t.open == nil {
		t.note(at, "include %s: it was not read", pattern)
		return nil, nil
	}
	files, err := t.open(pattern, from)
	if word == "include" && errors.Is(err, fs.ErrNotExist) { // keepalived goes on without it
		t.note(at, "include %s: it is not there", pattern)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: include: %w", at, err)
	}
	var all []*statement
	for _, f := range files {
		more, err := t.read(f)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}
