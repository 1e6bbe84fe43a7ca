package fields

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Text returns a value of TOML on one line: what Type.Write returns.
func Text(v any) string {
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
			items[i] = Text(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			items = append(items, quote(key)+" = "+Text(v[key]))
		}
		if items == nil {
			return "{}"
		}
		return "{ " + strings.Join(items, ", ") + " }"
	}
	return fmt.Sprint(v) // integers and booleans
}

// KeyText returns a key of TOML, in quotes unless it can stand bare.
func KeyText(key string) string {
	if key != "" && bareLength(key) == len(key) {
		return key
	}
	return quote(key)
}

// quote writes a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
