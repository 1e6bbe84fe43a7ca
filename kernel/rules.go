package kernel

import (
	"fmt"
	"strings"
)

// SameRules compares the rules of two chains and ignores comments.
func SameRules(a, b string) bool {
	for a != "" || b != "" {
		if a == b {
			return true
		}
		var ra, rb string
		ra, a, _ = strings.Cut(a, "\n")
		rb, b, _ = strings.Cut(b, "\n")
		if ra != rb && WithoutComment(ra) != WithoutComment(rb) {
			return false
		}
	}
	return true
}

// WithoutComment returns the rule without its comment match.
func WithoutComment(rule string) string {
	const match = "-m comment --comment "
	start := strings.Index(rule, match)
	if start < 0 {
		return rule
	}
	rest := rule[start+len(match):]
	end := strings.IndexByte(rest, ' ')
	if strings.HasPrefix(rest, `"`) {
		end = closingQuote(rest)
	}
	if end < 0 {
		return strings.TrimSpace(rule[:start])
	}
	return rule[:start] + strings.TrimPrefix(rest[end:], " ")
}

// closingQuote returns the index behind the quoted word at the start of s, or -1.
func closingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// Target returns the chain or target that a rule jumps to, "" if it has none.
func Target(rule string) string {
	rest := WithoutComment(rule)
	for rest != "" {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		if word == "-j" || word == "-g" {
			target, _, _ := strings.Cut(rest, " ")
			return target
		}
	}
	return ""
}

// Word is one word of a rule: its text, and whether it was in quotes.
type Word struct {
	Text   string
	Quoted bool
}

// Words splits a rule into words and resolves quotes and backslashes. With an error it returns those before it.
func Words(rule string) ([]Word, error) {
	var words []Word
	for rest := strings.TrimLeft(rule, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if rest[0] != '"' {
			var w string
			w, rest, _ = strings.Cut(rest, " ")
			words = append(words, Word{Text: w})
			continue
		}
		text, n, err := unquote(rest)
		if err != nil {
			return words, err
		}
		words = append(words, Word{text, true})
		rest = rest[n:]
	}
	return words, nil
}

// unquote returns the quoted word at the start of s, and its length in s.
func unquote(s string) (text string, n int, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"' && i+1 < len(s) && s[i+1] != ' ':
			return "", 0, fmt.Errorf("text follows a closing quote without a space")
		case s[i] == '"':
			return b.String(), i + 1, nil
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", 0, fmt.Errorf("a quote is not closed")
}
