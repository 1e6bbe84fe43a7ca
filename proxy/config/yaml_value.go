package config

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/svcproxy/svcproxy/sources/fields"
)

// notText are the kinds whose values are not strings in TOML.
var notText = []fields.Kind{fields.KindBoolean, fields.KindInteger, fields.KindNumber, fields.KindAmount,
	fields.KindStrings, fields.KindBooleans}

// fit converts a value to the type that it would have in TOML, where YAML has another
// type for it.
func (f *field) fit(v any, n *yaml.Node) any {
	text := !slices.Contains(notText, f.Kind)
	switch i := v.(type) {
	case int64:
		// Upstream this is the only duration that may be a number, of nanoseconds.
		if f.Kind == fields.KindDuration {
			if i == 0 || f.key == "logging.flushFrequency" {
				return time.Duration(i).String()
			}
			return v
		}
		if text {
			return n.Value
		}
	case float64:
		if text {
			return n.Value // showHiddenMetricsForVersion: 1.35
		}
	case string:
		var b bool
		if f.Kind == fields.KindBoolean && n.Style == 0 && n.Decode(&b) == nil {
			return b // yes, no, on, off
		}
	}
	return v
}

// value is a node as the TOML library would decode it. Values nested deeper than any
// field are left empty, because their type is wrong in any case.
func (r *yamlReader) value(key string, n *yaml.Node) any {
	switch n.Kind {
	case yaml.SequenceNode:
		items := make([]any, len(n.Content))
		for i, item := range n.Content {
			items[i] = inside(item)
		}
		return items
	case yaml.MappingNode:
		t := make(map[string]any)
		for word, value := range r.pairs(key, n) {
			t[word.Value] = inside(value)
		}
		return t
	}
	return scalar(n)
}

// inside is an element of a list or a mapping; null is "" there.
func inside(n *yaml.Node) any {
	if v := scalar(target(n)); v != nil {
		return v
	}
	return ""
}

// scalar is the value of a scalar node; nil for null. A list or a mapping is empty.
func scalar(n *yaml.Node) any {
	switch n.Kind {
	case yaml.SequenceNode:
		return []any{}
	case yaml.MappingNode:
		return map[string]any{}
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
	case "!!float":
		var x float64
		if n.Decode(&x) == nil {
			return x
		}
	}
	return n.Value
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// isNoTime reports whether a value is a duration of 0.
func isNoTime(v any) bool {
	s, _ := v.(string)
	d, err := time.ParseDuration(s)
	return err == nil && d == 0
}

// isZero reports whether a value is its type's zero.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
