package lab

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// native lists what svcproxy has in tables of nftables, as Sets and Rules list what is in ipset and iptables. It is
// for runs with SVCPROXY_TEST_RULES=nftables.
func (h *Host) native() (sets, rules []string, err error) {
	if os.Getenv("SVCPROXY_TEST_RULES") != "nftables" {
		return nil, nil, nil
	}
	tables, err := h.Run("nft", "list", "tables")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(tables) {
		f := strings.Fields(line)
		if len(f) != 3 || f[1] != "ip" && f[1] != "ip6" || !strings.HasPrefix(f[2], "svcproxy") {
			continue
		}
		out, err := h.Run("nft", "list", "table", f[1], f[2])
		if err != nil {
			return nil, nil, err
		}
		tool := map[string]string{"ip": "iptables-save", "ip6": "ip6tables-save"}[f[1]]
		s, r := nativeTable(out, tool)
		sets, rules = append(sets, s...), append(rules, r...)
	}
	slices.Sort(sets)
	return sets, rules, nil
}

// nativeTable reads a table as nft lists it.
func nativeTable(listed, tool string) (sets, rules []string) {
	chains := map[string][]string{} // nft lists them as they were made
	kind, name, listing := "", "", false
	for line := range strings.Lines(listed) {
		f := strings.Fields(line)
		switch {
		case len(f) == 3 && (f[0] == "set" || f[0] == "chain") && f[2] == "{":
			kind, name = f[0], f[1]
			if kind == "set" {
				sets = append(sets, "create "+name)
			} else {
				_, chain, _ := strings.Cut(name, "-")
				chains[name] = []string{tool + " :" + chain + " in " + name}
			}
		case kind == "chain" && len(f) > 0 && f[0] != "}":
			chains[name] = append(chains[name], tool+" -A "+name+" "+strings.TrimSpace(line))
		case kind == "set" && len(f) > 0:
			rest, begins := strings.CutPrefix(strings.TrimSpace(line), "elements = { ")
			if listing = listing || begins; !listing {
				continue
			}
			listing = !strings.HasSuffix(rest, "}")
			for element := range strings.SplitSeq(strings.TrimRight(rest, " },"), ",") {
				sets = append(sets, "add "+name+" "+entryOf(strings.Fields(element)))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		rules = append(rules, chains[name]...)
	}
	return sets, rules
}

// entryOf writes an element as ipset would: 10.0.0.1 . tcp . 80 is 10.0.0.1,tcp:80.
func entryOf(words []string) string {
	parts := slices.DeleteFunc(words, func(w string) bool { return w == "." })
	if len(parts) > 2 {
		parts = append([]string{parts[0], parts[1] + ":" + parts[2]}, parts[3:]...)
	}
	return strings.Join(parts, ",")
}
