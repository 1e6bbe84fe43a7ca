package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Barrier is a base chain of another program that lets through only what its rules
// accept. What one base chain refuses no other can accept.
type Barrier struct {
	Family  Family // 0: both
	Hook    string // where: prerouting, input, forward, output, postrouting
	Verdict string // what it does to other packets: drop or reject
	Name    string // for people: "iptables filter INPUT"
	// Accepts has the matches of each accepting rule, one rule a line, as iptables-save
	// prints them: those of the jumps to it first.
	Accepts string
}

// Barred returns a line for each barrier that no client's packet to some virtual servers
// passes, with these virtual servers. It understands only some matches; a rule with
// others counts as accepting. So every line is true, but there may be lines missing.
func Barred(firewall []Barrier, virtuals []Virtual) []string {
	var lines []string
	for _, b := range firewall {
		var shut []VirtualKey
		for _, v := range virtuals {
			if b.Bars(v.Key) {
				shut = append(shut, v.Key)
			}
		}
		switch n := len(shut); {
		case n == 0:
			continue
		case n == 1:
			lines = append(lines, fmt.Sprintf("%s: no rule accepts %s, it is left to %s", b.Name, shut[0], b.Verdict))
		default:
			lines = append(lines, fmt.Sprintf("%s: no rule accepts %s and %d more, they are left to %s", b.Name, shut[0], n-1,
				b.Verdict))
		}
	}
	return lines
}

// Bars reports whether no client's packet to a virtual server passes. If it is false a packet
// may pass, or may not.
func (b Barrier) Bars(k VirtualKey) bool {
	return k.Proto != FWMark && b.Sees(k.Family()) && !b.mayAccept(k) // whoever marks packets knows which
}

// Sees reports whether packets of a family pass the chain.
func (b Barrier) Sees(f Family) bool { return b.Family == 0 || b.Family == f }

// mayAccept reports whether a rule may accept a client's first packet to a virtual server.
func (b Barrier) mayAccept(k VirtualKey) bool {
	if b.Accepts == "" {
		return false
	}
	for matches := range strings.SplitSeq(b.Accepts, "\n") {
		if b.mayMatch(matches, k) {
			return true
		}
	}
	return false
}

// mayMatch reports whether a client's first packet may match: it is new to the connection
// tracker, and does not come from lo. Up to hook input its destination is the virtual
// server; after that IPVS has replaced it with a real server. Hook forward sees the
// replies.
func (b Barrier) mayMatch(matches string, k VirtualKey) bool {
	f := strings.Fields(WithoutComment(matches))
	state := "NEW"
	if b.Hook == "forward" {
		state = "ESTABLISHED"
	}
	asked := b.Hook == "prerouting" || b.Hook == "input" // the destination is still the virtual server
	for i := 0; i+1 < len(f); i++ {
		if i > 0 && f[i-1] == "!" {
			continue // a negated match leaves almost everything
		}
		var may bool
		switch value := f[i+1]; f[i] {
		case "-i", "-o":
			may = value != "lo"
		case "-p":
			may = value == k.Proto.String() || value == "all"
		case "--ctstate", "--state":
			may = slices.Contains(strings.Split(value, ","), state)
		case "--dport", "--dports", "--ports":
			may = !asked || hasPort(value, k.Port)
		case "-d":
			may = !asked || covers(value, k.Addr)
		default:
			continue
		}
		if !may {
			return false
		}
	}
	return true
}

// hasPort reports whether a list of ports and ranges, 80,8000:8080, has a port. It is true
// for text that it does not understand.
func hasPort(list string, port uint16) bool {
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(part, ":")
		if !ranged {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || from <= uint64(port) && uint64(port) <= to {
			return true
		}
	}
	return false
}

// covers reports whether a prefix contains an address. It is true for text that it does not
// understand.
func covers(text string, a netip.Addr) bool {
	p, err := parsePrefix(text)
	return err != nil || p.Contains(a)
}

var familyWords = map[Family]string{0: "any", IPv4: "ipv4", IPv6: "ipv6"}

func (b Barrier) append(line func(string, ...any)) {
	line("barrier %s %s %s %s", familyWords[b.Family], b.Hook, b.Verdict, b.Name)
	if b.Accepts == "" {
		return
	}
	for matches := range strings.SplitSeq(b.Accepts, "\n") {
		line("accepts %s", matches)
	}
}

// barrier reads: barrier FAMILY HOOK VERDICT NAME.
func (p *parser) barrier(f []string) error {
	if len(f) < 5 {
		return fmt.Errorf("want: barrier FAMILY HOOK VERDICT NAME")
	}
	b := Barrier{Hook: f[2], Verdict: f[3], Name: strings.Join(f[4:], " ")}
	for family, word := range familyWords {
		if word == f[1] {
			b.Family = family
		}
	}
	p.o.Firewall = append(p.o.Firewall, b)
	return nil
}

// accepts reads a line of the barrier before it.
func (p *parser) accepts(f []string) error {
	if len(p.o.Firewall) == 0 || len(f) < 2 {
		return fmt.Errorf("accepts: want a barrier before it, and matches")
	}
	b := &p.o.Firewall[len(p.o.Firewall)-1]
	b.Accepts = strings.TrimPrefix(b.Accepts+"\n"+strings.Join(f[1:], " "), "\n")
	return nil
}
