package kernel

import "strings"

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
