package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/svcproxy/svcproxy/sources/fields"
)

const yamlHead = `# svcproxy: how this node's proxy behaves, in kube-proxy's words and with keys of
# its own. An absent key has the value it has here, and so has one that is "" or
# 0 where kube-proxy takes that for the default: see explicit. What is served is
# in services.toml and services.d, see sources.file.paths.
apiVersion: ` + upstreamVersion + `
kind: ` + upstreamKind + `
`

// YAML is the configuration as a KubeProxyConfiguration, with a comment for every key.
// Decode reads it back to the same values. kube-proxy ignores the keys that it does not
// have.
func (c Config) YAML() []byte {
	var b bytes.Buffer
	b.WriteString(yamlHead)
	var open []string // the tables that the last key is in
	meant := []any{}
	defaults := defaultOfYAML()
	for _, f := range allFields {
		words := strings.Split(f.key, ".")
		tables := words[:len(words)-1]
		same := 0
		for same < min(len(open), len(tables)) && open[same] == tables[same] {
			same++
		}
		if same < len(tables) || len(tables) == 0 {
			b.WriteByte('\n')
		}
		for i := same; i < len(tables); i++ {
			fmt.Fprintf(&b, "%s%s:\n", indent(i), tables[i])
		}
		open = tables
		v, comment := f.Get(&c), f.comment
		if f.Kind == fields.KindListener {
			comment += " if " + meantKey + " names this key"
		}
		text := yamlText(v)
		if c.implied(&f) {
			text = "null # " + text
		}
		fmt.Fprintf(&b, "%s# %s\n%s%s: %s\n", indent(len(tables)), comment, indent(len(tables)), f.name(), text)
		if f.meansDefault(v) && f.toml(&c) != f.toml(&defaults) {
			meant = append(meant, f.key)
		}
	}
	fmt.Fprintf(&b, "\n# the keys above whose \"\" or 0 is meant, and not the default\n%s: %s\n", meantKey,
		yamlText(meant))
	return b.Bytes()
}

func indent(depth int) string { return strings.Repeat("  ", depth) }

// yamlText writes a value in YAML's flow style. It differs from TOML in tables and in
// the characters that need no escape.
func yamlText(v any) string {
	switch v := v.(type) {
	case string:
		return yamlQuote(v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = yamlText(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			items = append(items, yamlQuote(key)+": "+yamlText(v[key]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fields.Text(v)
}

// yamlQuote writes a double-quoted scalar. YAML has more line breaks than TOML, and
// characters that it does not accept.
func yamlQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
