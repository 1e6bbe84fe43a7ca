package report

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources/fields"
	"github.com/svcproxy/svcproxy/sources/redact"
)

// TOML returns a file without its comments and without the values of secret keys. What cannot be
// read as TOML is left out with all that follows.
func TOML(text string) string {
	out, ok := fields.Redact(strings.ReplaceAll(text, "\r\n", "\n"), `"`+redact.LeftOut+`"`, hides)
	if !ok {
		out += "\n# the rest is left out: it cannot be read\n"
	}
	return out
}

// hides reports whether a value is left out: a secret key is in its path, or it is an address with
// a user or a query.
func hides(path []string, value string) bool {
	for _, key := range path {
		if redact.Key(key) {
			return true
		}
	}
	if len(path) > 1 && path[0] == "notify" && path[1] == "exec" {
		return true // with its arguments
	}
	last := path[len(path)-1]
	return asks(path) && isScalar(value) && strings.Contains(value, "?") || last == "master" &&
		strings.Contains(value, "@")
}

// asks reports whether a value may be what a health check asks for: a path, or a short form such
// as "https:/health?key=K". A refused file may have other keys that mean healthCheck.
func asks(path []string) bool {
	return path[len(path)-1] == "path" || slices.ContainsFunc(path, func(key string) bool {
		key = strings.ToLower(key)
		return strings.Contains(key, "check") || strings.Contains(key, "health")
	})
}

// isScalar reports whether a value is neither a table nor an array, whose own values are looked at one by one.
func isScalar(value string) bool { return value != "" && value[0] != '{' && value[0] != '[' }
