package nft

import (
	"fmt"
	"strings"

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
