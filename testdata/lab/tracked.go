package lab

import (
	"slices"
	"strings"
)

// A Flow is one entry of a connection tracking table, as conntrack lists it.
type Flow struct {
	Proto    string // udp, tcp, sctp
	To       string // address and port it was first sent to: 10.96.0.20,80
	Answerer string // who answers: 10.2.1.10
	Entry    string // both directions and the entry's number, without state and timeout
}

// Tracked lists the tracked connections of both families, sorted by Entry.
func (h *Host) Tracked() ([]Flow, error) {
	var flows []Flow
	for _, family := range []string{"ipv4", "ipv6"} {
		out, err := h.Run("conntrack", "-L", "-o", "id", "-f", family)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			if f, ok := parseFlow(line); ok {
				flows = append(flows, f)
			}
		}
	}
	slices.SortFunc(flows, func(a, b Flow) int { return strings.Compare(a.Entry, b.Entry) })
	return flows, nil
}

// parseFlow reads a line like
//
//	udp 17 29 src=192.0.2.2 dst=10.96.0.20 sport=40000 dport=80 src=10.2.1.10 ... [ASSURED] mark=0 use=1 id=77
//
// Entries without ports, as of ICMP, are not ok.
func parseFlow(line string) (f Flow, ok bool) {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return f, false
	}
	f.Proto = fields[0]
	kept := []string{f.Proto}
	values := map[string][]string{}
	for _, field := range fields {
		name, value, assigned := strings.Cut(field, "=")
		switch {
		case !assigned, name == "mark", name == "use":
			continue
		}
		values[name] = append(values[name], value)
		kept = append(kept, field)
	}
	if len(values["src"]) < 2 || len(values["dport"]) < 2 {
		return f, false
	}
	f.To = values["dst"][0] + "," + values["dport"][0]
	f.Answerer = values["src"][1]
	f.Entry = strings.Join(kept, " ")
	return f, true
}
