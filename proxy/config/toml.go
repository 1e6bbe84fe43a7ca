package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const head = `# svcproxy: how this node's proxy behaves. An absent key has the value it has
# here. What is served is in services.toml and services.d, see
# sources.file.paths, or in this file as [services.NAME].
`

// TOML is the configuration as svcproxy.toml, with a comment for every key. Decode
// reads it back to the same values.
func (c Config) TOML() []byte {
	var b bytes.Buffer
	b.WriteString(head)
	table := ""
	for _, f := range allFields {
		if f.table() != table {
			table = f.table()
			fmt.Fprintf(&b, "\n[%s]\n", table)
		} else {
			b.WriteByte('\n')
		}
		mark := ""
		if c.implied(&f) {
			mark = "# "
		}
		fmt.Fprintf(&b, "# %s\n%s%s = %s\n", f.comment, mark, f.name(), f.toml(&c))
	}
	return b.Bytes()
}

// toml is the field's value in a Config as TOML, on one line.
func (f *field) toml(c *Config) string { return tomlText(f.Get(c)) }

// tomlText writes a value as TOML.
func tomlText(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case float64:
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = tomlText(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			items = append(items, quote(key)+" = "+tomlText(v[key]))
		}
		if items == nil {
			return "{}"
		}
		return "{ " + strings.Join(items, ", ") + " }"
	}
	return fmt.Sprint(v) // integers and booleans
}

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
