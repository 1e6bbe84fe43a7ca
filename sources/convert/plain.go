package convert

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// keyword matches the keywords of the formats.
var keyword = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,39}$`) })

// plain returns a word of a configuration for a note if it has the form of a keyword. Other words may be
// secrets: a note says where they stand, not what they are.
func plain(word string) string {
	if keyword().MatchString(word) {
		return word
	}
	return "a line"
}

// twoWords are the keywords of HAProxy that mean something together with the next word alone.
var twoWords = []string{
	"option", "no", "timeout", "stats", "http-check", "tcp-check", "http-request", "http-response", "http-after-response",
	"tcp-request", "tcp-response",
	"stick", "balance", "hash-type", "mode", "server", "server-template", "use_backend", "default_backend", "use-server",
	"acl", "retry-on", "log-forward",
}

// small matches numbers and times that are too short to be secrets.
var small = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{1,4}(?:us|ms|[smhdk])?$`) })

// title names a statement in a note: its keyword, with a second one where the first says little, and a small
// number. What else follows may be a secret.
func title(s *statement) string {
	words := []string{plain(s.words[0])}
	rest := s.words[1:]
	if len(rest) > 0 && slices.Contains(twoWords, s.words[0]) && keyword().MatchString(rest[0]) {
		words, rest = append(words, rest[0]), rest[1:]
	}
	if len(rest) > 0 && small().MatchString(rest[0]) {
		words = append(words, rest[0])
	}
	return strings.Join(words, " ")
}

// unknown names a statement whose keyword is not known. One that stands alone may itself be a secret.
func unknown(s *statement) string {
	if len(s.words) == 1 && len(s.block) == 0 {
		return "a line"
	}
	return plain(s.words[0])
}
