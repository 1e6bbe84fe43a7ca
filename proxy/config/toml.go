package config

import (
	"bytes"
	"fmt"

	"github.com/svcproxy/svcproxy/sources/fields"
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
func (f *field) toml(c *Config) string { return fields.Text(f.Get(c)) }
