package docs

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources/fields"
)

// schema is a JSON schema, or a part of one. It knows names and types of keys. Whether
// their values make sense together is checked by svcproxy check alone.
type schema map[string]any

// draft is the version of JSON schema that editors of TOML read.
const draft = "http://json-schema.org/draft-07/schema#"

// servicesSchema is the schema of services.toml.
func servicesSchema(keys []fields.Key) []byte {
	return schemaOf(keys, "services.toml: what svcproxy serves").json()
}

// configSchema is the schema of svcproxy.toml, which may have services too.
func configSchema(keys []fields.Key, of []fields.Key) []byte {
	return schemaOf(slices.Concat(of, keys), "svcproxy.toml: how svcproxy behaves").json()
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

// percentage is a whole number of percent.
const percentage = `^(100|[1-9]?[0-9])%$`

// portRange is a range of ports, "10000-10100".
const portRange = `^[0-9]{1,5}-[0-9]{1,5}$`

// schemaOf is a schema of keys. A name in upper case stands for any name that the writer of
// the file chooses.
func schemaOf(keys []fields.Key, title string) schema {
	root := closed()
	root["$schema"], root["title"] = draft, title
	for _, k := range keys {
		into := root
		names := strings.Split(k.Path, ".")
		for _, name := range names[:len(names)-1] {
			into = below(into, name)
		}
		last := names[len(names)-1]
		if last == strings.ToUpper(last) {
			into["additionalProperties"] = schemaValue(k)
			continue
		}
		into.define(last, schemaValue(k))
	}
	return root
}

// below is the table that a name of a path leads to. It adds a table that is not itself a
// key, such as [ipvs].
func below(s schema, name string) schema {
	if name == strings.ToUpper(name) {
		return asTable(s["additionalProperties"].(schema))
	}
	name, list := strings.CutSuffix(name, "[]")
	inner, ok := s.property(name)
	if !ok {
		inner = closed()
		s.define(name, inner)
	}
	if !list {
		return asTable(inner)
	}
	return asTable(inner["items"].(schema))
}

// asTable is the schema of the tables among the values of a schema, which may also be strings.
func asTable(s schema) schema {
	if either, ok := s["anyOf"].([]schema); ok {
		return either[1]
	}
	return s
}

func schemaValue(k fields.Key) schema {
	str := schema{"type": "string"}
	var s schema
	switch k.Kind {
	case fields.KindTable:
		s = closed()
	case fields.KindPortsOrTables:
		s = schema{"type": "array", "items": schema{"anyOf": []schema{{"type": "integer", "minimum": 1,
			"maximum": math.MaxUint16}, closed(), {"type": "string", "pattern": portRange}}}}
	case fields.KindPortOrRange:
		s = schema{"anyOf": []schema{{"type": "integer", "minimum": 1, "maximum": math.MaxUint16},
			{"type": "string", "pattern": portRange}}}
	case fields.KindAddressesOrTables:
		s = schema{"type": "array", "items": schema{"anyOf": []schema{str, closed()}}}
	case fields.KindStringOrTable:
		s = schema{"anyOf": []schema{str, closed()}}
	case fields.KindPortOrName:
		s = schema{"anyOf": []schema{str, {"type": "integer", "minimum": 1, "maximum": math.MaxUint16}}}
	case fields.KindAmount:
		s = schema{"anyOf": []schema{{"type": "string", "pattern": percentage}, {"type": "integer", "minimum": 0}}}
	case fields.KindAddresses, fields.KindCIDRs, fields.KindStrings:
		s = schema{"type": "array", "items": str}
	case fields.KindBooleans:
		s = schema{"type": "object", "additionalProperties": schema{"type": "boolean"}}
	case fields.KindTexts:
		s = schema{"type": "object", "additionalProperties": str}
	case fields.KindPort, fields.KindWeight, fields.KindInteger:
		s = schema{"type": "integer", "minimum": k.Min}
		if k.Max != math.MaxInt32 {
			s["maximum"] = k.Max
		}
	case fields.KindNumber:
		s = schema{"type": "number"}
	case fields.KindDuration:
		s = schema{"type": "string", "pattern": duration}
	case fields.KindBoolean:
		s = schema{"type": "boolean"}
	case fields.KindWord:
		s = schema{"enum": k.Words}
	default:
		s = str
	}
	s["description"] = k.Comment
	if k.Default != "" {
		s["description"] = k.Comment + " (default " + k.Default + ")"
	}
	return s
}
