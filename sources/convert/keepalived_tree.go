package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
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

// Files may include each other so deep, and definitions name each other. There may be so many files, and so
// many lines that definitions and repetitions stand for.
const (
	maxDepth    = 50
	maxIncluded = 100_000
	maxLines    = 200_000
)

// keepalivedTree reads statements.
type keepalivedTree struct {
	open      Open
	files     int // read so far
	depth     int // files that include the one that is read
	lines     int // that definitions and repetitions gave so far
	variables map[string]string
	notes     []Note
	unread    error // the first part that keepalived reads and import does not
	partial   bool  // there is one, or a line with a condition
}

func (t *keepalivedTree) note(at sources.Origin, format string, args ...any) {
	t.notes = append(t.notes, Note{Origin: at, Message: message(format, args...), Danger: Feature})
}

// pass notes a part that keepalived reads and import does not.
func (t *keepalivedTree) pass(at sources.Origin, format string, args ...any) {
	t.note(at, format, args...)
	t.partial = true
	if t.unread == nil {
		t.unread = fmt.Errorf("%s: %s", at, message(format, args...))
	}
}

// keepalivedFile is a file while it is read.
type keepalivedFile struct {
	name string
	open []*statement // the blocks that are open
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
	pwd := t.variables["_PWD"]
	t.variables["_PWD"] = cmp.Or(f.Dir, path.Dir(f.Name))
	defer func() { t.variables["_PWD"] = pwd }()
	root := &statement{}
	r := &keepalivedFile{name: f.Name, open: []*statement{root}}
	take := func(line int, text string) error {
		return t.take(sources.Origin{Source: string(Keepalived), File: f.Name, Line: line}, r, text)
	}
	line, first := 0, 0 // first is that of a definition of several lines, 0 outside of one
	var joined strings.Builder
	for text := range strings.Lines(string(f.Data)) {
		line++
		text = uncommented(strings.TrimRight(text, "\r\n"))
		at := line
		if first > 0 || isDefinition(text) {
			body, more := strings.CutSuffix(strings.TrimRight(text, " \t"), `\`)
			if more {
				if first == 0 {
					first = line
				}
				if t.lines++; t.lines > maxLines {
					return nil, fmt.Errorf("%s:%d: definitions stand for more than %d lines", f.Name, line, maxLines)
				}
				joined.WriteString(body + "\n")
				continue
			}
			if first > 0 {
				at, text = first, joined.String()+text
				first = 0
				joined.Reset()
			}
		}
		if err := take(at, text); err != nil {
			return nil, err
		}
	}
	if first > 0 { // the file ends within a definition
		if err := take(first, joined.String()); err != nil {
			return nil, err
		}
	}
	if len(r.open) > 1 {
		last := r.open[len(r.open)-1]
		return nil, fmt.Errorf("%s: the block of %q has no closing brace", last.at, plain(last.words[0]))
	}
	return root.block, nil
}

// isDefinition reports whether a line gives a variable its value: $NAME=VALUE.
func isDefinition(text string) bool {
	name, _, ok := strings.Cut(strings.TrimLeft(text, " \t"), "=")
	return ok && len(name) > 1 && name[0] == '$' && !strings.ContainsAny(name, " \t{")
}

// uncommented returns a line up to a # or ! that begins a comment.
func uncommented(text string) string {
	quote := rune(0)
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '#' || r == '!':
			return text[:i]
		}
	}
	return text
}

// take takes a line: of a definition, an include, or words. Variables are replaced as far as they have values.
func (t *keepalivedTree) take(at sources.Origin, r *keepalivedFile, text string) error {
	text = strings.TrimSpace(text)
	switch {
	case isDefinition(text):
		name, value, _ := strings.Cut(text, "=")
		t.variables[name[1:]] = strings.Trim(value, " \t")
		return nil
	case strings.HasPrefix(text, "~SEQ"):
		return t.repeat(at, r, text)
	}
	for range maxDepth {
		next := t.replace(text)
		if strings.Contains(next, "\n") {
			return t.takeAll(at, r, strings.Split(next, "\n"))
		}
		if next == text || len(next) > 1<<12 {
			break
		}
		text = next
	}
	text = strings.NewReplacer("${_HASH}", "#", "${_BANG}", "!").Replace(text)
	word, pattern := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		word, pattern = text[:i], text[i:]
	}
	if pattern = strings.Trim(strings.TrimSpace(pattern), `"'`); isInclude(word) && pattern != "" {
		more, err := t.include(at, word, pattern, r.name)
		top := r.open[len(r.open)-1]
		top.block = append(top.block, more...)
		return err
	}
	words, err := keepalivedWords(text)
	// which ones count is said on keepalived's command line
	if err == nil && len(words) > 0 && strings.HasPrefix(words[0], "@") {
		t.note(at, "a line with a condition: import does not know keepalived's config-id")
		t.partial = true
		return nil
	}
	if err == nil {
		r.open, err = t.line(at, words, r.open)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// takeAll takes the lines that one stands for.
func (t *keepalivedTree) takeAll(at sources.Origin, r *keepalivedFile, lines []string) error {
	if t.depth++; t.depth > maxDepth {
		return fmt.Errorf("%s: a definition that contains itself", at)
	}
	defer func() { t.depth-- }()
	if t.lines += len(lines); t.lines > maxLines {
		return fmt.Errorf("%s: definitions stand for more than %d lines", at, maxLines)
	}
	for _, text := range lines {
		if err := t.take(at, r, text); err != nil {
			return err
		}
	}
	return nil
}

// maxRepeats bounds how often a line is repeated.
const maxRepeats = 10_000

// repeat takes "~SEQ(NAME, [FIRST, [STEP,]] LAST) LINE", which stands for a line for each number.
func (t *keepalivedTree) repeat(at sources.Origin, r *keepalivedFile, text string) error {
	inside, line, ok := strings.Cut(strings.TrimLeft(text[len("~SEQ"):], "x("), ")")
	fields := strings.Split(inside, ",")
	numbers := make([]int64, len(fields)-1)
	for i := range numbers {
		n, err := strconv.ParseInt(strings.TrimSpace(fields[i+1]), 0, 32)
		ok, numbers[i] = ok && err == nil, n
	}
	first, step, last := int64(1), int64(1), int64(0)
	switch len(numbers) {
	case 1:
		if last = numbers[0]; last < 0 {
			first = -1
		}
	case 2:
		first, last = numbers[0], numbers[1]
	case 3:
		first, step, last = numbers[0], numbers[1], numbers[2]
	default:
		ok = false
	}
	if len(numbers) < 3 && last < first {
		step = -1
	}
	if !ok || step == 0 || (last-first)/step >= maxRepeats {
		return fmt.Errorf("%s: ~SEQ: want ~SEQ(NAME, FIRST, STEP, LAST), and at most %d lines", at, maxRepeats)
	}
	base := 10
	if strings.HasPrefix(text, "~SEQx") {
		base = 16
	}
	for n := first; step > 0 && n <= last || step < 0 && n >= last; n += step {
		t.variables[strings.TrimSpace(fields[0])] = strconv.FormatInt(n, base)
		if err := t.takeAll(at, r, []string{line}); err != nil {
			return err
		}
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
			last := top.block[len(top.block)-1]
			if last.block == nil {
				last.block = []*statement{}
			}
			open, fresh = append(open, last), true
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

// keepalivedWords splits a line without its comment into words and braces. A word in quotes keeps its first
// quote, so that it is no brace.
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
		case quote != 0:
			b.WriteRune(r)
		case r == '"' || r == '\'':
			if !in {
				b.WriteByte('"')
			}
			in, quote = true, r
		case r == '{' && strings.HasSuffix(b.String(), "$"), r == '}' && strings.Contains(b.String(), "${"):
			b.WriteRune(r)
		case r == '{' || r == '}':
			end()
			words = append(words, string(r))
		case r == ' ' || r == '\t':
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

// replace puts the values of variables in once: ${NAME} anywhere, $NAME up to a space, a comma, a parenthesis
// or the end.
func (t *keepalivedTree) replace(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after := variable(rest)
		value, known := t.value(name)
		if known {
			b.WriteString(value)
			text = after
			continue
		}
		b.WriteByte('$')
		text = rest
	}
}

// variable returns the name of a variable behind its $, "" if there is none, and what follows it.
func variable(rest string) (name, after string) {
	if inside, ok := strings.CutPrefix(rest, "{"); ok {
		if name, after, ok = strings.Cut(inside, "}"); ok {
			return name, after
		}
		return "", rest
	}
	end := strings.IndexFunc(rest, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end < 0 {
		end = len(rest)
	}
	if after = rest[end:]; after != "" && !strings.ContainsRune(" \t,)\n", rune(after[0])) {
		return "", rest
	}
	return rest[:end], after
}

// value returns the value of a variable, or of a word that keepalived itself defines.
func (t *keepalivedTree) value(name string) (string, bool) {
	if value, known := t.variables[name]; known {
		return value, true
	}
	if bounds := strings.Fields(name); len(bounds) > 0 && bounds[0] == "_RANDOM" {
		if len(bounds) > 1 {
			return bounds[1], true // the least is as good as another one
		}
		return "0", true
	}
	return "", false
}

// includeWords are keepalived's words for an include, and whether a file that is not there, and a pattern that matches
// nothing, are errors.
var includeWords = map[string]struct{ name, pattern bool }{
	"include": {}, "includer": {}, "includem": {name: true}, "includeb": {name: true}, "includew": {true, true},
	"includea": {true, true},
}

func isInclude(word string) bool {
	_, ok := includeWords[word]
	return ok
}

// include reads the files that an include names. keepalived goes on if there are none, but for some words.
func (t *keepalivedTree) include(at sources.Origin, word, pattern, from string) ([]*statement, error) {
	if t.open == nil {
		t.pass(at, "%s %s: it was not read", word, pattern)
		return nil, nil
	}
	var all []*statement
	read := 0
	for _, one := range braces(pattern) {
		files, err := t.open(one, from)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.pass(at, "%s %s: it cannot be read: %v", word, pattern, err)
			continue
		}
		for _, f := range files {
			if f.Err != nil {
				t.pass(at, "%s %s: %v", word, pattern, f.Err)
				continue
			}
			read++
			more, err := t.read(f)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	if read == 0 {
		must, glob := includeWords[word], strings.ContainsAny(pattern, "*?[{")
		switch {
		case glob && must.pattern || !glob && must.name:
			t.note(at, "%s %s: no file was read, which is an error for keepalived", word, pattern)
		default:
			t.note(at, "%s %s: no file was read", word, pattern)
		}
	}
	return all, nil
}

// braces returns the patterns that one with {A,B} stands for, in the order of the shell.
func braces(pattern string) []string {
	open := strings.IndexByte(pattern, '{')
	for depth, i := 0, open; open >= 0 && i < len(pattern); i++ {
		switch pattern[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth > 0 {
			continue
		}
		var all []string
		for _, word := range alternatives(pattern[open+1 : i]) {
			if all = append(all, braces(pattern[:open]+word+pattern[i+1:])...); len(all) > maxIncluded {
				return all
			}
		}
		return all
	}
	return []string{pattern}
}

// alternatives splits the inside of braces at the commas that are in no further braces.
func alternatives(text string) []string {
	var all []string
	depth, start := 0, 0
	for i, r := range text {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case r == ',' && depth == 0:
			all, start = append(all, text[start:i]), i+1
		}
	}
	return append(all, text[start:])
}
