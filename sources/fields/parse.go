// Package fields reads TOML by tables of the keys that a document may have. It is the one framework for
// svcproxy.toml and services.toml.
//
// Parse reads a document with the place of every key, so that every problem has a line: syntax, duplicate keys, and
// what the caller finds. A Type reads, writes and describes the values of a Go type. A Field is a key with its Type,
// the place of its value in a struct, its default and its comment. A Key documents it for manual pages and schemas.
//
// The package does not know which keys a document has.
package fields

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Mistake is one thing wrong with a document as TOML.
type Mistake struct {
	Line    int
	Message string // "" of a duplicate key

	// Of a duplicate key:
	Top   string // its top-level key
	Key   string // as written there, dots and quotes included
	First int    // the line where it stands first
}

// Error says what is wrong, without the line.
func (m Mistake) Error() string {
	if m.Key == "" {
		return m.Message
	}
	return fmt.Sprintf("duplicate key %s, first given at line %d", m.Key, m.First)
}

// Parse returns a document's values, as the TOML library decodes them into an any, and the places of its keys. ok is
// false if it is not TOML. Duplicate keys are mistakes, but do not end the parse: the tree does not have them.
func Parse(data []byte) (tree map[string]any, at *Place, mistakes []Mistake, ok bool) {
	text := string(data)
	if m, ok := checkText(text); !ok {
		return nil, nil, []Mistake{m}, false
	}
	return parse(text)
}

// parse is Parse for a text that checkText accepts.
func parse(text string) (tree map[string]any, at *Place, mistakes []Mistake, ok bool) {
	v, scanned := locate(text)
	mistakes = v.mistakes
	if v.scan.excess != nil {
		return nil, nil, append(mistakes, *v.scan.excess), false
	}
	if len(v.cuts) > 0 {
		text = edited(text, v.cuts)
	}
	tree, err := decode(text)
	switch {
	case err != nil:
		return nil, nil, append(mistakes, syntax(text, err)), false
	case !scanned: // BurntSushi/toml 1.6.0 takes """\\"""""", which has one quote more than TOML allows
		return nil, nil, append(mistakes, Mistake{Line: v.scan.line, Message: "not TOML from here on"}), false
	}
	return tree, &v.root, mistakes, true
}

// decode calls the library. It turns a panic, by which the library reports a fault of its own, into an error, so that
// one bad document does not end the process.
func decode(text string) (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the TOML library gave up: %v", r)
		}
	}()
	var v any // into a map the library would copy it
	_, err = toml.Decode(text, &v)
	tree, _ = v.(map[string]any)
	return tree, err
}

// syntax is the library's error in one line.
func syntax(text string, err error) Mistake {
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		return Mistake{Line: 1, Message: "not TOML: " + strings.Join(strings.Fields(err.Error()), " ")}
	}
	message := strings.TrimRight(pe.Message, ".\n")
	if strings.Contains(message, "'0x0d'") {
		message = "a carriage return without a line feed: lines end in LF, or CR LF"
	}
	// pe.Position.Line is one short where lines end in CR LF. Its Start is right.
	line := lineAt(text, min(max(pe.Position.Start, 0), len(text)))
	return Mistake{Line: line, Message: "not TOML: " + strings.Join(strings.Fields(message), " ")}
}

// lineAt is the line of a byte of the text.
func lineAt(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }

// TypeOf names the TOML type of a value, with its article.
func TypeOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	}
	return "an array"
}
