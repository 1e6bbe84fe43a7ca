package config

import "strings"

// Tree is the configuration for encoding/json: tables are maps, values as in TOML.
func (c Config) Tree() map[string]any {
	root := map[string]any{}
	for _, f := range allFields {
		words := strings.Split(f.key, ".")
		table := root
		for _, word := range words[:len(words)-1] {
			inner, ok := table[word].(map[string]any)
			if !ok {
				inner = map[string]any{}
				table[word] = inner
			}
			table = inner
		}
		table[f.name()] = f.Get(&c)
	}
	return root
}
