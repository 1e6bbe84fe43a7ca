package report

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/svcproxy/svcproxy/sources/fields"
)

// secretKeys are the keys of svcproxy.toml and of service files whose values may be secret: what
// health checks send, what they want to see, and what they give to programs.
var secretKeys = []string{"headers", "send", "sendHex", "args", "expect", "expectHex", "expectBody", "webhook"}

var secretWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + secretName + `$`) })

// TOML returns a file without its comments and without the values of secret keys. What cannot be
// read as TOML is left out with all that follows.
func TOML(text string) string {
	out, ok := fields.Redact(strings.ReplaceAll(text, "\r\n", "\n"), `"`+LeftOut+`"`, hides)
	if !ok {
		out += "\n# the rest is left out: it cannot be read\n"
	}
	return out
}

// hides reports whether a value is left out: a secret key is in its path, or it is an address with
// a user or a query.
func hides(path []string, value string) bool {
	for _, key := range path {
		if secretKey(key) {
			return true
		}
	}
	if len(path) > 1 && path[0] == "notify" && path[1] == "exec" {
		return true // with its arguments
	}
	last := path[len(path)-1]
	return asks(path) && isScalar(value) && strings.Contains(value, "?") || last == "master" && strings.Contains(value, "@")
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
