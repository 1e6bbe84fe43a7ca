package config

import "github.com/svcproxy/svcproxy/sources/fields"

// Keys are all keys of svcproxy.toml, in the order in which they are written,
// but for services, whose keys are file.Keys.
func Keys() []fields.Key {
	c := Default()
	keys := make([]fields.Key, len(allFields))
	for i, f := range allFields {
		keys[i] = fields.Key{
			Path: f.key, Kind: f.Kind, Words: f.Words, Min: f.Min, Max: f.Max,
			Default: f.toml(&c), Comment: f.comment, Flag: f.flag, Restart: f.is(restart),
		}
	}
	return keys
}
