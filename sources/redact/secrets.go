// Package redact leaves secrets out of texts, and tells which parts of a health check may be one.
//
// It knows secrets by where they stand (a header, an argument behind -p, a key called password) and by what they look
// like. What it cannot tell from a secret counts as one, but for short words and numbers that stand alone among the
// arguments of a program: these are kept.
package redact

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// LeftOut stands where a secret was.
const LeftOut = "<left out>"

// leastSecret is how long a known secret must be to be looked for, in bytes. Shorter ones would
// match everywhere.
const leastSecret = 4

// Secrets are the known secrets of a configuration: header values of health checks, what they
// send, and the arguments of programs.
type Secrets struct{ values []string }

// Know adds secrets, in every form in which logs and JSON may have them. Headers joined by line
// breaks and arguments joined by zero bytes are known one by one, too.
func (s *Secrets) Know(values ...string) {
	for _, v := range values {
		s.add(v)
		for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == '\n' || r == 0 }) {
			s.add(part)
			_, value, _ := strings.Cut(part, ": ") // "Authorization: Bearer TOKEN"
			s.add(value)
		}
	}
	slices.SortFunc(s.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s.values = slices.Compact(s.values)
}

func (s *Secrets) add(v string) {
	if v = strings.TrimSpace(v); len(v) < leastSecret {
		return
	}
	s.values = append(s.values, v)
	if quoted, err := json.Marshal(v); err == nil {
		s.values = append(s.values, string(quoted[1:len(quoted)-1]))
	}
	_, word, scheme := strings.Cut(v, " ") // "Bearer TOKEN"
	if scheme && len(word) >= leastSecret {
		s.values = append(s.values, word)
	}
}

// Redact leaves the known secrets out of a text, and what looks like one.
func (s *Secrets) Redact(text string) string {
	for _, v := range s.values {
		text = strings.ReplaceAll(text, v, LeftOut)
	}
	for _, l := range looks() {
		text = l.what.ReplaceAllString(text, l.to)
	}
	return text
}

// secretName is what keys are called whose values are secret.
const secretName = `(?i:[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|authorization|api[_-]?key|private[_-]?key|` +
	`client-key-data|client-certificate-data|credential|cookie)[\w.-]*)`

// A look is what a secret looks like, and what stands there instead.
type look struct {
	what *regexp.Regexp
	to   string
}

// looks are what secrets look like wherever they are. A report compiles them: before main, every command would
// pay for them, and version would take 4 % longer.
var looks = sync.OnceValue(func() []look {
	return []look{
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*-----.*?(?:-----END [A-Z ]*-----|$)`), LeftOut},
		{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}`), "$1 " + LeftOut},
		{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), LeftOut},
		{regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]+@`), "${1}" + LeftOut + "@"},
		{regexp.MustCompile(`("` + secretName + `"\s*:\s*)"(?:[^"\\]|\\.)*"`), `$1"` + LeftOut + `"`},
		{regexp.MustCompile(`(` + secretName + `\s*[=:]\s*)("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"'<,;}&]+)`), "${1}" + LeftOut},
		{regexp.MustCompile(`(--[\w-]*(?:password|token|secret)[\w-]*)\s+\S+`), "$1 " + LeftOut},
	}
})

// KnowIn adds the values of secret keys anywhere in a value, such as the services of a table.
func (s *Secrets) KnowIn(v any) {
	text, err := json.Marshal(v)
	var tree any
	if err != nil || json.Unmarshal(text, &tree) != nil {
		return
	}
	s.walk(tree, false)
}

func (s *Secrets) walk(v any, secret bool) {
	switch v := v.(type) {
	case string:
		if secret {
			s.Know(v)
		}
	case []any:
		for _, e := range v {
			s.walk(e, secret)
		}
	case map[string]any:
		for key, e := range v {
			if text, ok := e.(string); ok && strings.EqualFold(key, "path") {
				_, query, _ := strings.Cut(text, "?")
				s.Know(query)
			}
			s.walk(e, secret || Key(key))
		}
	}
}

// secretKeys are the keys of svcproxy.toml and of service files whose values may be secret: what
// health checks send, what they want to see, and what they give to programs.
var secretKeys = []string{"headers", "send", "sendHex", "args", "expect", "expectHex", "expectBody", "webhook"}

var secretWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + secretName + `$`) })

// Key reports whether the value of a key may be secret.
func Key(key string) bool {
	return slices.ContainsFunc(secretKeys, func(k string) bool {
		return strings.EqualFold(k, key)
	}) || secretWord().MatchString(key)
}
