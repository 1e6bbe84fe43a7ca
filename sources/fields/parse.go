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
	Top     string // of a duplicate key: its top-level key; else ""
	Key     string // of a duplicate key, as written there, dots and quotes included; else ""
	Message string
}

// Parse returns a document's values, as the TOML library decodes them into an any, and the places of its keys. ok is
// false if it is not TOML. Duplicate keys are mistakes, but do not end the parse: the tree has them under names for
// which Spare returns true.
func Parse(data []byte) (tree map[string]any, places *Place, mistakes []Mistake, ok bool) {
	text := string(data)
	if m, ok := checkText(text); !ok {
		return nil, nil, []Mistake{m}, false
	}
	places, dups, excess := locate(text)
	for _, d := range dups {
		message := fmt.Sprintf("duplicate key %s, first given at line %d", d.key, d.first)
		mistakes = append(mistakes, Mistake{Line: d.line, Top: d.top, Key: d.key, Message: message})
	}
	if excess != nil {
		return nil, nil, append(mistakes, *excess), false
	}
	if len(dups) > 0 {
		text = rename(text, dups)
	}
	tree, err := decode(text)
	if err != nil {
		return nil, nil, append(mistakes, syntax(text, err)), false
	}
	return tree, places, mistakes, true
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
