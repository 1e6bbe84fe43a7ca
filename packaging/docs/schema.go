package docs

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources/file"
)

// schema is a JSON schema, or a part of one. It knows names and types of keys. Whether
// their values make sense together is checked by svcproxy check alone.
type schema map[string]any

// draft is the version of JSON schema that editors of TOML read.
const draft = "http://json-schema.org/draft-07/schema#"

// servicesSchema is the schema of services.toml.
func servicesSchema(keys []file.Key) []byte {
	s := servicesTable(keys)
	s["$schema"], s["title"] = draft, "services.toml: what svcproxy serves"
	return s.json()
}

// configSchema is the schema of svcproxy.toml, which may have services too.
func configSchema(keys []config.Key, of []file.Key) []byte {
	s := servicesTable(of)
	s["$schema"], s["title"] = draft, "svcproxy.toml: how svcproxy behaves"
	for _, k := range keys {
		into := s
		names := strings.Split(k.Name, ".")
		for _, table := range names[:len(names)-1] {
			inner, ok := into.property(table)
			if !ok {
				inner = closed()
				into.define(table, inner)
			}
			into = inner
		}
		into.define(names[len(names)-1], configValue(k))
	}
	return s.json()
}

func (s schema) json() []byte {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // cannot happen: s has maps, slices and strings only
	}
	return append(b, '\n')
}

// closed is a table that allows no keys yet.
func closed() schema {
	return schema{"type": "object", "additionalProperties": false, "properties": schema{}}
}

func (s schema) property(name string) (schema, bool) {
	p, ok := s["properties"].(schema)[name].(schema)
	return p, ok
}

func (s schema) define(name string, p schema) { s["properties"].(schema)[name] = p }

// duration matches what time.ParseDuration accepts, without a minus.
const duration = `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`

func configValue(k config.Key) schema {
	s := schema{}
	switch k.Kind {
	case config.Word:
		s["enum"] = k.Words
	case config.Boolean:
		s["type"] = "boolean"
	case config.Integer:
		s["type"], s["minimum"] = "integer", k.Min
		if k.Max != math.MaxInt32 {
			s["maximum"] = k.Max
		}
	case config.Number:
		s["type"] = "number"
	case config.Duration:
		s["type"], s["pattern"] = "string", duration
	case config.Texts:
		s["type"], s["items"] = "array", schema{"type": "string"}
	case config.Booleans:
		s["type"], s["additionalProperties"] = "object", schema{"type": "boolean"}
	default:
		s["type"] = "string"
	}
	s["description"] = k.Comment + " (default " + k.Default + ")"
	return s
}

// servicesTable builds a schema from the paths of the keys, such as "a.b[].c". A name in
// upper case stands for any name that the writer of the file chooses.
func servicesTable(keys []file.Key) schema {
	root := closed()
	for _, k := range keys {
		into := root
		names := strings.Split(k.Path, ".")
		for _, name := range names[:len(names)-1] {
			into = below(into, name)
		}
		last := names[len(names)-1]
		if last == strings.ToUpper(last) {
			into["additionalProperties"] = servicesValue(k)
			continue
		}
		into.define(last, servicesValue(k))
	}
	return root
}

// below is the table that a name of a path leads to.
func below(s schema, name string) schema {
	if name == strings.ToUpper(name) {
		return s["additionalProperties"].(schema)
	}
	name, list := strings.CutSuffix(name, "[]")
	s, _ = s.property(name)
	if !list {
		return s
	}
	s = s["items"].(schema)
	if either, ok := s["anyOf"].([]schema); ok {
		return either[1]
	}
	return s
}

func servicesValue(k file.Key) schema {
	texts := schema{"type": "string"}
	var s schema
	switch k.Kind {
	case file.Table:
		s = closed()
	case file.Tables:
		s = schema{"type": "array", "items": closed()}
	case file.AddressesOrTables:
		s = schema{"type": "array", "items": schema{"anyOf": []schema{texts, closed()}}}
	case file.Addresses, file.CIDRs:
		s = schema{"type": "array", "items": texts}
	case file.PortNumber:
		s = schema{"type": "integer", "minimum": 1, "maximum": math.MaxUint16}
	case file.WeightNumber:
		s = schema{"type": "integer", "minimum": 0, "maximum": math.MaxUint16}
	case file.Duration:
		s = schema{"type": "string", "pattern": duration}
	case file.Boolean:
		s = schema{"type": "boolean"}
	case file.Word:
		s = schema{"enum": k.Words}
	default:
		s = texts
	}
	s["description"] = k.Comment
	if k.Default != "" {
		s["description"] = k.Comment + " (default " + k.Default + ")"
	}
	return s
}
