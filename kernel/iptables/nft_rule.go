package iptables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// unread stands for a match that is not understood.
const unread = "-m unread"

// nftRule reads one rule of nftables in the words of iptables, with lists where iptables has one value. A look-up in a
// verdict map becomes a rule for each element.
//
// The library leaves out expressions that it does not know. Each of those that exist
// today loads a register, and the comparison after it becomes unread, or is one of oddOnes.
type nftRule struct {
	elements func(set string) ([]element, bool)
	link     func(index uint32) string
	odd      string

	loaded  string // what the last expression loaded into a register, by its option: "-s"; "" if it is not known
	pending bool   // it was not compared yet
	several bool   // several were loaded: a set compares all of them
	mask    []byte // of what is loaded
	least   []byte // of a range whose other end may follow
	values  map[uint32][]byte
	matches []string
	lines   []string
	over    bool // behind the verdict
}

// read returns the rules that a rule is. One without a target is none.
func (r *nftRule) read(rule []expr.Any) []string {
	for _, e := range rule {
		if !r.over {
			r.expression(e)
		}
	}
	if r.odd != "" {
		r.lines, r.over = nil, false
		r.end("", r.odd)
	}
	return r.lines
}

// end adds a line with a target.
func (r *nftRule) end(match, target string) {
	if !strings.HasPrefix(target, "-g ") {
		target = "-j " + target
	}
	words := append(slices.Clone(r.matches), match, target)
	r.lines = append(r.lines, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
}

// last adds the last line of a rule.
func (r *nftRule) last(target string) { r.end("", target); r.over = true }

func (r *nftRule) match(text string) { r.matches = append(r.matches, text) }

// load notes what a register has.
func (r *nftRule) load(option string) {
	r.several = r.several || r.pending
	r.loaded, r.pending, r.mask, r.least = option, true, nil, nil
}

func (r *nftRule) expression(e expr.Any) {
	switch e := e.(type) {
	case *expr.Counter, *expr.Log, *expr.CtHelper, *expr.CtTimeout, *expr.SecMark:
		// they match every packet and change none
	case *expr.Notrack:
		r.end("", "NOTRACK")
	case *expr.Immediate:
		if r.values == nil {
			r.values = make(map[uint32][]byte)
		}
		r.values[e.Register] = e.Data
	case *expr.Meta, *expr.Ct:
		r.known(e)
	case *expr.Payload:
		r.load(payload(e))
	case *expr.Fib:
		r.load(fib(e))
	case *expr.Bitwise:
		if !zero(e.Xor) {
			r.loaded = ""
		}
		r.mask = e.Mask
	case *expr.Cmp:
		r.compare(e)
	case *expr.Range:
		r.matched(e.Op == expr.CmpOpNeq, r.ranged(e.FromData, e.ToData))
	case *expr.Lookup:
		r.lookup(e)
	case *expr.Match:
		if e.Name != "comment" {
			r.match(unread)
		}
	case *expr.Objref:
		if e.Type != unix.NFT_OBJECT_COUNTER && e.Type != unix.NFT_OBJECT_CT_HELPER {
			r.match(unread)
		}
	default:
		if target := r.target(e); target != "" {
			r.last(target)
		} else if _, continues := e.(*expr.Verdict); !continues {
			r.match(unread)
		}
	}
}

// target returns what ends a rule, "" for anything else.
func (r *nftRule) target(e expr.Any) string {
	switch e := e.(type) {
	case *expr.Verdict:
		return verdict(e)
	case *expr.Reject:
		return "REJECT"
	case *expr.Masq:
		return "MASQUERADE"
	case *expr.Queue:
		return "NFQUEUE"
	case *expr.Redir:
		return "REDIRECT --to-ports " + r.port(e.RegisterProtoMin)
	case *expr.Target:
		return e.Name
	case *expr.NAT:
		if e.Type == expr.NATTypeSourceNAT {
			return "SNAT"
		}
		to := "unread"
		if a, ok := netip.AddrFromSlice(r.values[e.RegAddrMin]); ok {
			if to = a.String(); e.RegProtoMin != 0 {
				to = net.JoinHostPort(to, r.port(e.RegProtoMin))
			}
		}
		return "DNAT --to-destination " + to
	}
	return ""
}

// known notes what meta and ct load. A mark that a rule sets is one more rule.
func (r *nftRule) known(e expr.Any) {
	switch e := e.(type) {
	case *expr.Meta:
		if e.SourceRegister {
			if e.Key == expr.MetaKeyMARK {
				target := "MARK"
				if v := r.values[e.Register]; !r.pending && len(v) == 4 {
					target = fmt.Sprintf("MARK --set-xmark %#x/0xffffffff", binary.NativeEndian.Uint32(v))
				}
				r.end("", target)
			}
			r.pending = false
			return
		}
		r.load(metaNames[e.Key])
	case *expr.Ct:
		switch {
		case e.SourceRegister:
		case e.Key == expr.CtKeySTATE:
			r.load("--ctstate")
		default:
			r.load("")
		}
	}
}

// matched adds a match, unread if it is "".
func (r *nftRule) matched(negated bool, text string) {
	if text == "" || r.several {
		negated, text = false, unread
	}
	if negated {
		module := ""
		if words := strings.SplitAfterN(text, " ", 3); len(words) == 3 && words[0] == "-m " {
			module, text = words[0]+words[1], words[2]
		}
		text = module + "! " + text
	}
	r.match(text)
	r.pending, r.several = false, false
}

// compare adds the match for a comparison of what was loaded with a constant.
func (r *nftRule) compare(e *expr.Cmp) {
	data := e.Data
	if e.Op == expr.CmpOpEq || e.Op == expr.CmpOpNeq {
		text, negated := r.equal(data), e.Op == expr.CmpOpNeq
		if len(r.mask) > 0 && zero(data) && (r.loaded == "--ctstate" || r.loaded == "--tcp-flags") {
			text, negated = r.anyOf(), !negated
		}
		r.matched(negated, text)
		return
	}
	least, most := make([]byte, len(data)), bytes.Repeat([]byte{0xff}, len(data))
	switch e.Op {
	case expr.CmpOpLt:
		most = before(data)
	case expr.CmpOpLte:
		most = data
	case expr.CmpOpGte:
		least = data
	default:
		least = after(data)
	}
	if r.least != nil { // of a range, whose first comparison is the last match
		least, r.matches = r.least, r.matches[:len(r.matches)-1]
	}
	if r.least = nil; e.Op == expr.CmpOpGte {
		r.least = least
	}
	r.matched(false, r.ranged(least, most))
}

// port is the port in a register.
func (r *nftRule) port(register uint32) string {
	if n, err := number(r.values[register], binary.BigEndian); err == nil {
		return fmt.Sprint(n)
	}
	return "unread"
}

// lookup adds the match for a look-up in a set, or a line for each element of a verdict map.
func (r *nftRule) lookup(e *expr.Lookup) {
	several := r.several
	r.pending, r.several = false, false
	all, ok := r.elements(e.SetName)
	ok = ok && !several
	if !e.IsDestRegSet {
		r.matched(e.Invert, r.inSet(all, ok))
		return
	}
	if e.DestRegister != unix.NFT_REG_VERDICT { // the value of a map
		r.load("")
		r.match(unread)
		return
	}
	if !ok {
		r.end(unread, "ACCEPT")
		r.end(unread, "DROP")
		return
	}
	rest := "" // the match of what no other element has: lines in front of it end the way of all else
	for _, el := range all {
		match := rest
		if len(el.from) > 0 {
			if match = r.inSet([]element{el}, true); match == "" {
				match = unread
			}
		}
		if target := verdict(&el.verdict); target != "" {
			r.end(match, target)
		} else {
			rest = unread
		}
	}
}
