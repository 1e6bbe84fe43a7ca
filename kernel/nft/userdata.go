package nft

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// The user data of a rule is a list of types, lengths and values, at most 256 bytes (NFT_USERDATA_MAXLEN).
const (
	commentType = 0   // NFTNL_UDATA_RULE_COMMENT, which nft shows
	wordsType   = 's' // ours; nft skips types that it does not know
	maxUserdata = 256

	// maxComment is the longest comment that nft reads again, in bytes (NFTNL_UDATA_COMMENT_MAXLEN, less a NUL).
	maxComment = 127
)

const commentMatch = "-m comment --comment "

// commentHere stands for the comment among the words.
const commentHere = "\x01"

// userdata returns the user data of a rule: its comment and its words.
func userdata(words, comment string) ([]byte, error) {
	plain := kernel.WithoutComment(words)
	if i := strings.Index(words, commentMatch); i >= 0 {
		plain = plain[:min(i, len(plain))] + commentHere + plain[min(i, len(plain)):]
	}
	// The last resort of a long rule is a shorter comment: no comparison heeds it.
	comment = plainComment(comment)
	room := min(len(comment), maxUserdata-len(plain)-2-2-1)
	if room < 0 {
		return nil, fmt.Errorf("rule %q is longer than what nftables keeps of it", words)
	}
	comment = comment[:room]
	var data []byte
	if comment != "" {
		data = append(data, commentType, byte(len(comment)+1))
		data = append(append(data, comment...), 0)
	}
	data = append(data, wordsType, byte(len(plain)))
	return append(data, plain...), nil
}

// plainComment is a comment that nft can read again.
func plainComment(s string) string {
	s = strings.ReplaceAll(s, `"`, `'`)
	return s[:min(len(s), maxComment)]
}

// wordsOf returns the words in a rule's user data, "" if there are none.
func wordsOf(data []byte) string {
	var comment, words string
	for len(data) >= 2 {
		typ, n := data[0], int(data[1])
		if data = data[2:]; n > len(data) {
			return ""
		}
		switch typ {
		case commentType:
			comment = strings.TrimRight(string(data[:n]), "\x00")
		case wordsType:
			words = string(data[:n])
		}
		data = data[n:]
	}
	before, after, has := strings.Cut(words, commentHere)
	if !has {
		return words
	}
	if before != "" && !strings.HasSuffix(before, " ") {
		before += " "
	}
	return strings.TrimRight(before+commentMatch+quoted(comment)+" "+after, " ")
}

// quoted writes a comment as iptables-save does.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == "" {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`).Replace(s) + `"`
}

// typeOf returns the user data of a map of slots, as nft writes it for a map that is declared with
//
//	typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . th dport
//
// Without it nft 1.0.6 ends with a failed assertion when it lists the map, since an integer has no length of its own,
// and with another type for the slot it does not read again what it listed. The lengths and values are those of
// nftables/src/expression.c and proto.h.
func (s shape) typeOf(f kernel.Family) []byte {
	concat := func(fields []field) []byte {
		var all []byte
		for i, x := range fields {
			all = append(all, entry(byte(i), x.typeOf(f))...)
		}
		return append(value32(0, 13), entry(1, all)...) // EXPR_CONCAT
	}
	return slices.Concat(
		value32(0, 0), value32(1, 0), // NFTNL_UDATA_SET_KEYBYTEORDER and DATABYTEORDER
		entry(3, concat(s.fields)), // NFTNL_UDATA_SET_KEY_TYPEOF
		entry(4, concat(s.to)),     // NFTNL_UDATA_SET_DATA_TYPEOF
		value32(6, 0))              // NFTNL_UDATA_SET_DATA_INTERVAL
}

// typeOf is an expression for a field: its kind, and what it is of.
func (x field) typeOf(f kernel.Family) []byte {
	expression := func(kind uint32, values ...uint32) []byte {
		var of []byte
		for i, v := range values {
			of = append(of, value32(byte(i), v)...)
		}
		return append(value32(0, kind), entry(1, of)...)
	}
	const payload, meta, numgen = 7, 9, 23 // enum expr_types
	switch {
	case x == protoField:
		return expression(meta, unix.NFT_META_L4PROTO)
	case x == portField:
		return expression(payload, 11, 2) // th dport
	case x == slotField:
		return expression(numgen, unix.NFT_NG_RANDOM, 2, 0)
	case f == kernel.IPv6:
		return expression(payload, 13, 9) // ip6 daddr
	}
	return expression(payload, 12, 12) // ip daddr
}

// entry is one type, length and value, and value32 one with a number in the machine's order.
func entry(typ byte, value []byte) []byte { return append([]byte{typ, byte(len(value))}, value...) }

func value32(typ byte, n uint32) []byte { return entry(typ, native(n)) }
