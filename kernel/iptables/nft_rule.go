package iptables

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Numbers of linux/netfilter/nf_tables.h.
const (
	ruleTable       = 1
	ruleChain       = 2
	ruleExpressions = 4

	exprName = 1
	exprData = 2

	dataValue    = 1
	dataVerdict  = 2
	verdictCode  = 1
	verdictChain = 2

	// NFT_JUMP, NFT_GOTO and NFT_RETURN; NF_DROP and NF_ACCEPT are 0 and 1.
	verdictJump, verdictGoto, verdictReturn = -3, -4, -5

	// NFT_META_*, NFT_CT_STATE, NFT_PAYLOAD_*_HEADER.
	metaIIF, metaOIF, metaIIFName, metaOIFName, metaL4Proto = 4, 5, 6, 7, 16
	ctState                                                 = 0
	networkHeader, transportHeader                          = 1, 2

	cmpEqual, cmpNotEqual = 0, 1
)

// states are the bits of ct state (NF_CT_STATE_BIT) by iptables' names.
var states = []struct {
	bit  uint32
	name string
}{{1, "INVALID"}, {2, "ESTABLISHED"}, {4, "RELATED"}, {8, "NEW"}, {64, "UNTRACKED"}}

// nftRule is a rule of nftables on its way into the words of iptables: what it
// asks of a packet, as far as that matters here, and what it does with one. What
// is not understood is a match of nobody's name, so that the rule is not taken to
// be for all packets.
type nftRule struct {
	loaded  string // what the last expression put into a register: "state", "--dport", ...
	mask    uint32 // of a state
	matches []string
	target  string // "" if it has none
}

// String is the rule as iptables-save might print it.
func (r *nftRule) String() string {
	s := strings.Join(r.matches, " ")
	if r.target != "" {
		s += " -j " + r.target
	}
	return strings.TrimSpace(s)
}

// decodeRule reads an NFT_MSG_NEWRULE message.
func decodeRule(p []byte) (string, error) {
	if len(p) < 4 {
		return "", fmt.Errorf("%d bytes where a netfilter header belongs", len(p))
	}
	var r nftRule
	a := nl.ParseAttrs(p[4:])
	for a.Next() {
		if a.Type() != ruleExpressions {
			continue
		}
		list := a.Nested()
		for list.Next() {
			if err := r.expression(list.Nested()); err != nil {
				return "", err
			}
		}
		if list.Err() != nil {
			return "", list.Err()
		}
	}
	return r.String(), a.Err()
}

func (r *nftRule) expression(a nl.Attrs) error {
	var name string
	values := map[uint16][]byte{} // by attribute of the expression
	for a.Next() {
		switch a.Type() {
		case exprName:
			name = a.Text()
		case exprData:
			data := a.Nested()
			for data.Next() {
				values[data.Type()] = data.Bytes()
			}
			if data.Err() != nil {
				return data.Err()
			}
		}
	}
	loaded := r.loaded
	r.loaded = ""
	switch name {
	case "counter", "log", "notrack": // they match everything
	case "meta":
		r.loaded = map[uint32]string{
			metaIIF: "index -i", metaOIF: "index -o", metaIIFName: "-i", metaOIFName: "-o", metaL4Proto: "-p",
		}[number(values[2])]
	case "ct":
		if number(values[2]) == ctState {
			r.loaded, r.mask = "state", ^uint32(0)
		}
	case "payload":
		switch [3]uint32{number(values[2]), number(values[3]), number(values[4])} { // base, offset, length
		case [3]uint32{transportHeader, 2, 2}:
			r.loaded = "--dport"
		case [3]uint32{networkHeader, 9, 1}: // IPv4's
			r.loaded = "-p"
		}
	case "bitwise":
		if mask := value(values[4], dataValue); loaded == "state" && len(mask) == 4 {
			r.loaded, r.mask = "state", binary.NativeEndian.Uint32(mask)
		}
	case "cmp":
		r.compare(loaded, number(values[2]), value(values[3], dataValue))
	case "lookup":
		r.lookup(loaded, values[3] != nil)
	case "immediate":
		r.verdict(value(values[2], dataVerdict))
	case "reject":
		r.target = "REJECT"
	default:
		r.matches = append(r.matches, "-m unread")
	}
	return a.Err()
}

// compare takes in a comparison of what was loaded with a constant.
func (r *nftRule) compare(loaded string, op uint32, constant []byte) {
	match := ""
	switch {
	case loaded == "state" && op == cmpNotEqual && len(constant) == 4:
		match = "--ctstate " + stateNames(r.mask)
	case op != cmpEqual:
	case loaded == "-p" && len(constant) == 1:
		match = "-p " + protocolName(constant[0])
	case loaded == "--dport" && len(constant) == 2:
		match = fmt.Sprintf("--dport %d", binary.BigEndian.Uint16(constant))
	case loaded == "-i" || loaded == "-o":
		match = loaded + " " + strings.TrimRight(string(constant), "\x00")
	case strings.HasPrefix(loaded, "index ") && len(constant) == 4 && binary.NativeEndian.Uint32(constant) == 1:
		match = strings.TrimPrefix(loaded, "index ") + " lo" // it is the first link of every namespace
	}
	if len(strings.Fields(match)) != 2 {
		match = "-m unread"
	}
	r.matches = append(r.matches, match)
}

// lookup takes in a set that what was loaded is looked up in, or a map with a
// verdict for it. Its elements are not read. A map by state that accepted what is
// new would leave nothing to the chain's policy, so it is taken not to.
func (r *nftRule) lookup(loaded string, verdict bool) {
	switch {
	case !verdict:
		r.matches = append(r.matches, "-m unread")
	case loaded == "state":
		r.matches, r.target = append(r.matches, "--ctstate RELATED,ESTABLISHED"), "ACCEPT"
	default:
		r.matches, r.target = append(r.matches, "-m unread"), "ACCEPT"
	}
}

// verdict takes in what becomes of the packet. Chains that are jumped to are not
// read: they may accept anything.
func (r *nftRule) verdict(p []byte) {
	code := value(p, verdictCode)
	if len(code) != 4 {
		return // a value for a register
	}
	switch int32(binary.BigEndian.Uint32(code)) {
	case 0:
		r.target = "DROP"
	case 1:
		r.target = "ACCEPT"
	case verdictReturn:
		r.target = "RETURN"
	case verdictJump, verdictGoto:
		r.matches, r.target = append(r.matches, "-m unread"), "ACCEPT"
	}
}

func stateNames(mask uint32) string {
	var names []string
	for _, s := range states {
		if mask&s.bit != 0 {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, ",")
}

func protocolName(n byte) string {
	if name := protocols[fmt.Sprint(n)]; name != "" {
		return name
	}
	return fmt.Sprint(n)
}

// number is an attribute of 32 bits in network order; none is a number that
// nothing has.
func number(p []byte) uint32 {
	if len(p) != 4 {
		return ^uint32(0)
	}
	return binary.BigEndian.Uint32(p)
}

// value is the attribute typ inside p, nil if there is none.
func value(p []byte, typ uint16) []byte {
	a := nl.ParseAttrs(p)
	for a.Next() {
		if a.Type() == typ {
			return a.Bytes()
		}
	}
	return nil
}

// putGetRules appends the question for a chain's rules.
func putGetRules(b *nl.Batch, c baseChain) {
	b.Begin(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, 0)
	b.Nfgen(c.family)
	b.Text(ruleTable, c.table)
	b.Text(ruleChain, c.name)
	b.End()
}
