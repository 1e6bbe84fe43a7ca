package iptables

import (
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// parseSave extracts our chains and jumps from the output of iptables-save. It brings each rule
// into one form, whichever release and back end printed it.
func parseSave(text string, f kernel.Family, names kernel.Names) ([]kernel.Chain, error) {
	p := saved{family: f, names: names}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	if p.table != "" {
		return nil, fmt.Errorf("table %s has no COMMIT: the output is cut off", p.table)
	}
	return p.chains.Chains(), nil
}

// saved is what parseSave found so far.
type saved struct {
	family kernel.Family
	names  kernel.Names
	table  string // we are inside, "" outside
	chains kernel.ChainBuilder
}

func (p *saved) line(s string) error {
	switch {
	case s[0] == '*':
		p.table = s[1:]
	case p.table == "":
		return fmt.Errorf("is outside any table")
	case s == "COMMIT":
		p.table = ""
	case s[0] == ':':
		if name, _, _ := strings.Cut(s[1:], " "); p.names.OwnsChain(p.table, name) {
			p.chains.Add(p.family, p.table, name)
		}
	default:
		return p.rule(s)
	}
	return nil
}

// rule adds "-A CHAIN RULE" if the chain is ours or the rule jumps to one of ours.
func (p *saved) rule(s string) error {
	name, rule, err := cutRule(s)
	if err != nil {
		return err
	}
	ours := p.names.OwnsChain(p.table, name)
	if !ours && !(kernel.Chain{Name: name}).BuiltIn() {
		return nil
	}
	words, err := split(rule)
	if err != nil {
		return err
	}
	if !ours && !p.names.OwnsChain(p.table, target(words)) {
		return nil
	}
	p.chains.Rule(p.family, p.table, name, canonical(words))
	return nil
}

// cutRule splits "-A CHAIN RULE", with or without counters in front.
func cutRule(line string) (chain, rule string, err error) {
	rest := line
	if line[0] == '[' {
		_, rest, _ = strings.Cut(line, "] ")
	}
	rest, ok := strings.CutPrefix(rest, "-A ")
	chain, rule, _ = strings.Cut(rest, " ")
	if !ok || chain == "" {
		return "", "", fmt.Errorf("want -A CHAIN RULE")
	}
	return chain, rule, nil
}

// word is one word of a rule: its text, and whether it was in quotes.
type word struct {
	text   string
	quoted bool
}

// split splits a rule into words and resolves quotes and backslashes.
func split(rule string) ([]word, error) {
	var words []word
	for rest := strings.TrimLeft(rule, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if rest[0] != '"' {
			var w string
			w, rest, _ = strings.Cut(rest, " ")
			words = append(words, word{text: w})
			continue
		}
		text, n, err := unquote(rest)
		if err != nil {
			return nil, err
		}
		words = append(words, word{text, true})
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

// target returns the chain or target of a rule, "" if it has none.
func target(words []word) string {
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case word{text: "--comment"}:
			i++ // skip its text
		case word{text: "-j"}, word{text: "-g"}:
			return words[i+1].text
		}
	}
	return ""
}

// protocolNames has a name for each protocol that some releases print as a number or an alias.
var protocolNames = map[string]string{
	"1": "icmp", "6": "tcp", "17": "udp", "58": "ipv6-icmp", "132": "sctp", "icmpv6": "ipv6-icmp",
}

// canonical joins words in the form of iptables-save 1.8: quotes only where they are needed,
// protocols by name.
func canonical(words []word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
			if name := protocolNames[w.text]; name != "" && words[i-1].text == "-p" {
				w.text = name
			}
		}
		if w.quoted {
			w.text = quote(w.text)
		}
		b.WriteString(w.text)
	}
	return b.String()
}

// quote writes text as iptables does (xtables_save_string): without quotes if it has only letters,
// digits, - and _.
func quote(text string) string {
	plain := func(c rune) bool {
		return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	if text != "" && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return `"` + escape.Replace(text) + `"`
}

var escape = strings.NewReplacer(`"`, `\"`, `\`, `\\`, `'`, `\'`)
