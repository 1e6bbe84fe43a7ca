// Package file reads services from TOML files: the services.toml and services.d/*.toml of an
// administrator, or the services table inside svcproxy.toml.
//
// It is strict, because a typo that is passed over is an outage found by a customer: an unknown or
// duplicate key, a wrong type and a value that cannot be are each refused with file and line, all of
// them in one go. A file is taken or rejected as a whole, and a rejected one keeps its own last good
// content. What is written in a half-written file, a FIFO or a vanished file is never guessed.
//
// Decode is pure, Load reads once, and Source follows the files as they change.
package file

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/svcproxy/svcproxy/sources"
)

// Decode reads a file of services. The table is sorted and holds the services that have no problem;
// name is the file's name in Origins and messages. A warning is about something that works but is not
// what it looks like. Whether the services make sense is for sources.Validate.
func Decode(name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: "file", File: name}}
	root, ok := d.parse(data, func(string) bool { return true })
	if !ok {
		return sources.Table{}, nil, sorted(d.problems)
	}
	table(d, root, fields[sources.Table]{"services": readServices}, &t)
	return t, sorted(d.warnings), sorted(d.problems)
}

// DecodeServices reads the services table of a document that has other keys too, which are left to
// whoever they belong to. source is what Origins say.
func DecodeServices(source, name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: source, File: name}}
	root, ok := d.parse(data, func(key string) bool { return strings.HasPrefix(key, "services") })
	if !ok {
		return sources.Table{}, nil, sorted(d.problems)
	}
	if v, ok := root.v.(map[string]any)["services"]; ok {
		readServices(d, node{"services", root.at.child("services"), v}, &t)
	}
	return t, sorted(d.warnings), sorted(d.problems)
}

// parse gives the document, and false when it is not TOML. Duplicate keys are refused here, those that
// ours says yes to.
func (d *decoder) parse(data []byte, ours func(key string) bool) (node, bool) {
	if !utf8.Valid(data) {
		good := 0
		for r, size := utf8.DecodeRune(data); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(data[good:]) {
			good += size
		}
		d.refuse(lineOf(string(data), good), "not UTF-8: TOML files must be")
		return node{}, false
	}

	text := string(data)
	places, dups, deep := locate(text)
	for _, dup := range dups {
		if ours(dup.key) {
			d.refuse(node{at: &place{line: dup.line}}, "duplicate key %s, first given at line %d", dup.key, dup.first)
		}
	}
	if deep != 0 {
		d.refuse(node{at: &place{line: deep}}, "nested more than %d deep", maxDepth)
		return node{}, false
	}
	if len(dups) > 0 {
		text = rename(text, dups)
	}

	tree, err := decodeTOML(text)
	if err != nil {
		d.syntax(text, err)
		return node{}, false
	}
	return node{"", places, tree}, true
}

// decodeTOML is the library, which panics where it finds a fault in itself: that is one bad file, and no
// reason to stop serving the others.
func decodeTOML(text string) (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the TOML library gave up: %v", r)
		}
	}()
	_, err = toml.Decode(text, &tree)
	return tree, err
}

// syntax refuses what the library could not read, in one line.
func (d *decoder) syntax(text string, err error) {
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		d.refuse(node{at: &place{line: 1}}, "not TOML: %s", strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	message := strings.TrimRight(pe.Message, ".\n")
	// Its Line is one short where a line ends in CR and LF; its Start is right.
	at := lineOf(text, min(max(pe.Position.Start, 0), len(text)))
	d.refuse(at, "not TOML: %s", strings.Join(strings.Fields(message), " "))
}

// lineOf is a node at a byte of the text.
func lineOf(text string, offset int) node {
	return node{at: &place{line: 1 + strings.Count(text[:offset], "\n")}}
}

// sorted puts problems in the order of the text: map order must not show.
func sorted(problems []sources.Problem) []sources.Problem {
	sources.SortProblems(problems)
	return problems
}
