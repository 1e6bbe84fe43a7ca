package iptables

import (
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// eachLine calls a function for each line of the tables in the output of iptables-save: ":CHAIN POLICY", or a rule.
func eachLine(text string, do func(table, line string) error) error {
	table := "" // we are inside
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		var err error
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '*':
			table = line[1:]
		case table == "":
			err = fmt.Errorf("is outside any table")
		case line == "COMMIT":
			table = ""
		default:
			err = do(table, line)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	if table != "" {
		return fmt.Errorf("table %s has no COMMIT: the output is cut off", table)
	}
	return nil
}

// parseSave extracts our chains and jumps from the output of iptables-save. It brings each rule
// into one form, whichever release and back end printed it.
func parseSave(text string, f kernel.Family, names kernel.Names) ([]kernel.Chain, error) {
	var chains kernel.ChainBuilder
	err := eachLine(text, func(table, line string) error {
		if line[0] == ':' {
			if name, _, _ := strings.Cut(line[1:], " "); names.OwnsChain(table, name) {
				chains.Add(f, table, name)
			}
			return nil
		}
		name, rule, err := cutRule(line)
		ours := names.OwnsChain(table, name)
		if err != nil || !ours && !(kernel.Chain{Name: name}).BuiltIn() {
			return err
		}
		words, err := kernel.Words(rule)
		if err == nil && (ours || names.OwnsChain(table, target(words))) {
			chains.Rule(f, table, name, canonical(words))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return chains.Chains(), nil
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

// target returns the chain or target of a rule, "" if it has none.
func target(words []kernel.Word) string {
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case kernel.Word{Text: "--comment"}:
			i++ // skip its text
		case kernel.Word{Text: "-j"}, kernel.Word{Text: "-g"}:
			return words[i+1].Text
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
func canonical(words []kernel.Word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
			if name := protocolNames[w.Text]; name != "" && words[i-1].Text == "-p" {
				w.Text = name
			}
		}
		if w.Quoted {
			w.Text = quote(w.Text)
		}
		b.WriteString(w.Text)
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
