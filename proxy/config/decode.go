package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// decoder sets a Config's fields and collects problems.
type decoder struct {
	config  Config
	file    string
	origins map[string]origin // by key; a key without one has its default
	refused map[string]bool   // keys with an invalid value
	// of a file of kube-proxy's that svcproxy did not write: lines where defaults with another meaning are left; or 0
	upstream struct {
		file            bool
		mode, localhost int
	}
	problems []sources.Problem
	warnings []sources.Problem
}

// origin is where a field's value comes from.
type origin struct {
	flag string // "--ipvs-scheduler", or "" for the file
	line int
}

// Decode reads svcproxy.toml strictly over the defaults, and the flags over that;
// flags may be nil. It reads a KubeProxyConfiguration by upstream's rules. name is
// the file's name in messages. Its extension .yaml, .yml or .toml gives the format;
// without one the text does. Decode ignores the key services: see
// file.DecodeServices. On an error, an *Error, c has the defaults but for stateDir
// and runtimeDir. warnings are about values without effect.
func Decode(name string, data []byte, flags *Flags) (c Config, warnings []sources.Problem, err error) {
	d := &decoder{config: Default(), file: name, origins: make(map[string]origin), refused: make(map[string]bool)}
	if isYAML(name, data) {
		d.config = defaultOfYAML()
		d.yaml(data)
	} else {
		d.document(data)
	}
	d.flags(flags)
	for _, f := range allFields {
		if _, given := d.origins[f.key]; given && f.is(raised) {
			d.config.Conntrack.Written = append(d.config.Conntrack.Written, f.key)
		}
	}
	d.config.ModeFallsBack = d.fallsBack()
	d.check()
	sources.SortProblems(d.problems)
	sources.SortProblems(d.warnings)
	if d.problems != nil {
		c = Default()
		c.StateDir, c.RuntimeDir = d.config.StateDir, d.config.RuntimeDir
		return c, d.warnings, &Error{d.problems}
	}
	return d.config, d.warnings, nil
}

func (d *decoder) document(data []byte) {
	tree, places, mistakes, ok := fields.Parse(data)
	for _, m := range mistakes {
		// file.DecodeServices reports duplicates in services.
		if !slices.Contains(foreignKeys, m.Top) {
			d.refuse(m.Line, "%v", m)
		}
	}
	if !ok {
		d.folders(data, mistakes[len(mistakes)-1].Line)
		return
	}
	d.table("", tree, places)
}

// folders reads stateDir and runtimeDir from the lines before a mistake: the last
// good configuration is kept there.
func (d *decoder) folders(data []byte, mistake int) {
	before := slices.Collect(bytes.Lines(data))
	tree, _, _, _ := fields.Parse(bytes.Join(before[:min(max(mistake-1, 0), len(before))], nil))
	for _, key := range []string{"stateDir", "runtimeDir"} {
		if v, said := tree[key]; said {
			_ = fieldOf(key).set(&d.config, v) // an invalid value leaves the default
		}
	}
}

func (d *decoder) refuse(line int, format string, args ...any) {
	d.problems = append(d.problems, problemAt(d.file, line, format, args...))
}

// maxProblems is how many problems of a document are reported.
const maxProblems = 100

// full says whether there are too many problems to read on. The first time it adds
// a problem that says so.
func (d *decoder) full(at *fields.Place) bool {
	if len(d.problems) == maxProblems {
		d.refuse(at.Line, "more than %d problems: correct these first", maxProblems)
	}
	return len(d.problems) > maxProblems
}

// table reads the table of a dotted name; "" is the document.
func (d *decoder) table(name string, t map[string]any, at *fields.Place) {
	for _, word := range slices.Sorted(maps.Keys(t)) {
		key, place := joined(name, word), at.Key(word)
		if d.full(place) {
			return
		}
		n := fields.Node{Key: key, At: place, V: t[word]}
		inner, isTable := t[word].(map[string]any)
		f := fieldOf(key)
		switch {
		case f != nil:
			d.set(f, t[word], place.Line, func(i int) int {
				if elem := place.Elem(i); elem != nil {
					return elem.Line
				}
				return place.Line
			})
		case slices.Contains(foreignKeys, key):
		case !isTableName(key):
			d.refuse(place.Line, "unknown key %q%s", key, hint(name, word))
		case !isTable:
			d.refuse(place.Line, "%s %v", key, n.Mistyped("a table"))
		default:
			d.table(key, inner, place)
		}
	}
}

// set sets a field to a value from a line of the file. element returns the line of
// one of its elements.
func (d *decoder) set(f *field, v any, line int, element func(int) int) {
	d.origins[f.key] = origin{line: line}
	err := f.set(&d.config, v)
	if err == nil {
		return
	}
	d.refused[f.key] = true
	var item *itemError
	if errors.As(err, &item) {
		line = element(item.index)
	}
	d.refuse(line, "%s %v", f.key, err)
}

// joined is the dotted name of a key in a table; "" is the document.
func joined(table, word string) string {
	if table == "" {
		return word
	}
	return table + "." + word
}

func fieldOf(key string) *field {
	if i := slices.IndexFunc(allFields, func(f field) bool { return f.key == key }); i >= 0 {
		return &allFields[i]
	}
	return nil
}

func isTableName(key string) bool {
	return slices.ContainsFunc(allFields, func(f field) bool { return strings.HasPrefix(f.key, key+".") })
}

// hint suggests what an unknown key was probably meant to be: a key of the same
// table, or one of the same name in another.
func hint(table, word string) string {
	var siblings, elsewhere []string
	inside := table
	if inside != "" {
		inside += "."
	}
	for _, f := range allFields {
		if rest, ok := strings.CutPrefix(f.key, inside); ok {
			sibling, _, _ := strings.Cut(rest, ".")
			siblings = append(siblings, sibling)
		}
		if strings.EqualFold(f.name(), word) {
			elsewhere = append(elsewhere, f.key)
		}
	}
	if table == "" {
		siblings = append(siblings, foreignKeys...)
	}
	if meant := fields.Near(word, siblings); meant != "" {
		return fmt.Sprintf(", did you mean %q?", inside+meant)
	}
	if len(elsewhere) > 0 {
		return fmt.Sprintf(", did you mean %q?", strings.Join(elsewhere, `" or "`))
	}
	return ", svcproxy --write-config-to FILE lists the keys"
}
