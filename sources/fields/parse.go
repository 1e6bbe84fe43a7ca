// Package strict reads TOML text so that everything wrong with it can be said with its line: what is
// no TOML, every duplicate key, and, through Places, whatever the reader of the document finds amiss.
//
// It is shared by all that is configured in TOML. It refuses to know which keys a document may have.
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
	Top     string // of a duplicate key: the document's own key that it is under, or is; else ""
	Key     string // of a duplicate key, as written there, dots and quotes included; else ""
	Message string
}

// Parse gives a document's values, as the TOML library gives them to an any, and the places of its keys.
// ok is false when it is not TOML. Duplicate keys are mistakes, and the document is read all the same:
// what stands under one is there under a name that Spare knows.
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

// decode is the library, which panics where it finds a fault in itself: that is one bad document, and no
// reason to end the process.
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

// syntax is what the library could not read, in one line.
func syntax(text string, err error) Mistake {
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		return Mistake{Line: 1, Message: "not TOML: " + strings.Join(strings.Fields(err.Error()), " ")}
	}
	message := strings.TrimRight(pe.Message, ".\n")
	if strings.Contains(message, "'0x0d'") {
		message = "a carriage return without a line feed: lines end in LF, or CR LF"
	}
	// Its Line is one short where a line ends in CR and LF; its Start is right.
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
