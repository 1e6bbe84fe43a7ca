package iptables

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// unread stands for a match that is not understood. With it a rule does not count as one for all
// packets.
const unread = "-m unread"

// states has iptables' name for each bit of ct state.
var states = []struct {
	bit  uint32
	name string
}{
	{expr.CtStateBitINVALID, "INVALID"}, {expr.CtStateBitESTABLISHED, "ESTABLISHED"}, {expr.CtStateBitRELATED, "RELATED"},
	{expr.CtStateBitNEW, "NEW"}, {expr.CtStateBitUNTRACKED, "UNTRACKED"},
}

// nftRule is a rule of nftables in the words of iptables: the matches that matter here, and the target.
//
// The library leaves out expressions that it does not know. Each of those that exist
// today loads a register, and the comparison after it becomes unread.
type nftRule struct {
	loaded  string // what the last expression loaded into a register: "state", "--dport", ...
	mask    uint32 // of a state
	size    int    // of an address, in bytes
	bits    int    // of it: the length of the prefix that is compared
	matches []string
	target  string // "" if it has none
}

// words returns a rule as iptables-save might print it.
func words(rule []expr.Any) string {
	var r nftRule
	for _, e := range rule {
		r.expression(e)
	}
	s := strings.Join(r.matches, " ")
	if r.target != "" {
		s += " -j " + r.target
	}
	return strings.TrimSpace(s)
}

func (r *nftRule) expression(e expr.Any) {
	loaded := r.loaded
	r.loaded = ""
	switch e := e.(type) {
	case *expr.Counter, *expr.Log, *expr.Notrack: // they match every packet
	case *expr.Immediate: // a value for a register
	case *expr.Meta:
		r.loaded = metaNames[e.Key]
	case *expr.Ct:
		if e.Key == expr.CtKeySTATE {
			r.loaded, r.mask = "state", ^uint32(0)
		}
	case *expr.Payload:
		switch {
		case e.Base == expr.PayloadBaseTransportHeader && e.Offset == 2 && e.Len == 2:
			r.loaded = "--dport"
		case e.Base == expr.PayloadBaseTransportHeader && e.Offset == 0 && e.Len == 2:
			r.loaded = "--sport"
		case e.Base == expr.PayloadBaseNetworkHeader && e.Offset == 9 && e.Len == 1: // IPv4
			r.loaded = "-p"
		case e.Base == expr.PayloadBaseNetworkHeader:
			r.loaded, r.size = addressAt(e.Offset, e.Len)
			r.bits = int(e.Len) * 8
		}
	case *expr.Bitwise:
		switch {
		case loaded == "state" && len(e.Mask) == 4:
			r.loaded, r.mask = "state", binary.NativeEndian.Uint32(e.Mask)
		case loaded == "-s" || loaded == "-d":
			r.loaded, r.bits = loaded, prefixBits(e.Mask)
		}
	case *expr.Cmp:
		r.compare(loaded, e.Op, e.Data)
	case *expr.Lookup:
		r.lookup(loaded, e.IsDestRegSet)
	case *expr.Verdict:
		r.verdict(e.Kind)
	case *expr.Reject:
		r.target = "REJECT"
	default:
		r.matches = append(r.matches, unread)
	}
}

// metaNames says what a key of meta loads. For "index -i" the option needs the name of the link, and
// the rule has its index.
var metaNames = map[expr.MetaKey]string{
	expr.MetaKeyIIF: "index -i", expr.MetaKeyOIF: "index -o", expr.MetaKeyIIFNAME: "-i", expr.MetaKeyOIFNAME: "-o",
	expr.MetaKeyL4PROTO: "-p", expr.MetaKeyNFPROTO: "--nfproto",
}

// familyNames are the words behind --nfproto, which iptables does not have: its tables are of one family.
var familyNames = map[byte]string{unix.NFPROTO_IPV4: "ipv4", unix.NFPROTO_IPV6: "ipv6"}

// compare adds the match for a comparison of what was loaded with a constant.
func (r *nftRule) compare(loaded string, op expr.CmpOp, constant []byte) {
	match := ""
	switch {
	case loaded == "state" && op == expr.CmpOpNeq && len(constant) == 4:
		match = "--ctstate " + stateNames(r.mask)
	case op != expr.CmpOpEq:
	case loaded == "--nfproto" && len(constant) == 1:
		match = "--nfproto " + familyNames[constant[0]]
	case loaded == "-p" && len(constant) == 1:
		match = "-p " + protocolName(constant[0])
	case (loaded == "--dport" || loaded == "--sport") && len(constant) == 2:
		match = fmt.Sprintf("%s %d", loaded, binary.BigEndian.Uint16(constant))
	case loaded == "-s" || loaded == "-d":
		match = loaded + " " + prefix(constant, r.size, r.bits)
	case loaded == "-i" || loaded == "-o":
		match = loaded + " " + strings.TrimRight(string(constant), "\x00")
	case strings.HasPrefix(loaded, "index ") && len(constant) == 4 && binary.NativeEndian.Uint32(constant) == 1:
		match = strings.TrimPrefix(loaded, "index ") + " lo" // the first link of every namespace
	}
	if len(strings.Fields(match)) != 2 {
		match = unread
	}
	r.matches = append(r.matches, match)
}

// lookup adds the match for a look-up in a set, or in a map if there is a verdict. The elements are
// not read. A map by state is taken to accept established flows only: one that accepted new flows
// would leave nothing to the chain's policy.
func (r *nftRule) lookup(loaded string, verdict bool) {
	switch {
	case !verdict:
		r.matches = append(r.matches, unread)
	case loaded == "state":
		r.matches, r.target = append(r.matches, "--ctstate RELATED,ESTABLISHED"), "ACCEPT"
	default:
		r.matches, r.target = append(r.matches, unread), "ACCEPT"
	}
}

// verdict sets the target. The chain of a jump is not read, and may accept anything.
func (r *nftRule) verdict(kind expr.VerdictKind) {
	switch kind {
	case expr.VerdictDrop:
		r.target = "DROP"
	case expr.VerdictAccept:
		r.target = "ACCEPT"
	case expr.VerdictReturn:
		r.target = "RETURN"
	case expr.VerdictJump, expr.VerdictGoto:
		r.matches, r.target = append(r.matches, unread), "ACCEPT"
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
	if name := protocolNames[fmt.Sprint(n)]; name != "" {
		return name
	}
	return fmt.Sprint(n)
}

// addressAt says which address a part of the network header is, and the size of all of it. The kernel's tools load only
// the bytes that a prefix has. IPv4 has its addresses at 12 and 16, IPv6 at 8 and 24.
func addressAt(offset, length uint32) (option string, size int) {
	switch {
	case offset == 12 && length <= 4:
		return "-s", 4
	case offset == 16 && length <= 4:
		return "-d", 4
	case offset == 8 && length > 1 && length <= 16:
		return "-s", 16
	case offset == 24 && length <= 16:
		return "-d", 16
	}
	return "", 0
}

// prefixBits returns the length of a mask, 0 if it is none of a prefix.
func prefixBits(mask []byte) int {
	ones, _ := net.IPMask(mask).Size()
	return ones
}

// prefix is a network as iptables prints it, "" if it is none. The address may lack bytes at its end.
func prefix(address []byte, size, bits int) string {
	full := make([]byte, size)
	copy(full, address)
	a, ok := netip.AddrFromSlice(full)
	if !ok || bits == 0 || len(address) > size || bits > 8*len(address) {
		return ""
	}
	return netip.PrefixFrom(a, bits).String()
}
