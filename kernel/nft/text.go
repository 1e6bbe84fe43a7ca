package nft

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Text is what the program nft would take for an op, a line for each rule of a chain. Rules with words that nftables
// has no form for are left as they are, as a comment.
func Text(o kernel.Op, n kernel.Names) string {
	switch x := o.Object.(type) {
	case kernel.Set:
		return setText(o.Verb, x, n)
	case kernel.Entry:
		return entryText(o, x, n)
	case kernel.Flowtable:
		return flowtableText(o, x, n)
	case kernel.Chain:
		return chainText(o, x, n)
	}
	return o.Object.String()
}

// place is where an object is: family, table and name.
func place(f kernel.Family, table, name string) string {
	return ip(f) + " " + table + " " + name
}

// typeNames has the data types of nft by number.
var typeNames = map[uint32]string{7: "ipv4_addr", 8: "ipv6_addr", 12: "inet_proto", 13: "inet_service",
	classID: "classid"}

func setText(v kernel.Verb, s kernel.Set, n kernel.Names) string {
	kind, shape := "set ", shapes[s.Type]
	if shape.isMap() {
		kind = "map "
	}
	to := place(s.Family, n.TableOf(s), classes(n, s.Family))
	switch {
	case v == kernel.Remove && shape.class:
		return "delete map " + place(s.Family, n.TableOf(s), s.Name) + "\ndelete map " + to
	case v == kernel.Remove:
		return "delete " + kind + place(s.Family, n.TableOf(s), s.Name)
	}
	what := "type " + typesText(shape.fields, s.Family)
	switch {
	case shape.class:
		what += fmt.Sprintf(" : classid; }\nadd map %s { type classid : verdict", to)
	case shape.to != nil:
		what += " : " + typesText(shape.to, s.Family)
		if shape.counts(s) {
			what += "; counter"
		}
	case shape.interval, shape.network:
		what += "; flags interval"
	case shape.meter:
		what += fmt.Sprintf("; size %d; flags dynamic", s.MaxElem)
		if shape.expires {
			what += ",timeout"
		}
	}
	return fmt.Sprintf("add %s%s { %s; }", kind, place(s.Family, n.TableOf(s), s.Name), what)
}

func typesText(fields []field, f kernel.Family) string {
	var types []string
	for _, x := range fields {
		types = append(types, typeNames[x.typ(f)])
	}
	return strings.Join(types, " . ")
}

func entryText(o kernel.Op, e kernel.Entry, n kernel.Names) string {
	f, spec, _ := n.SetSpec(e.Set)
	verb := "add"
	if o.Verb == kernel.Remove {
		verb = "delete"
	}
	shape, value := shapes[spec.Type], ""
	switch {
	case o.Verb == kernel.Remove:
	case shape.class:
		value = " : " + classText(classOf(e.Goto))
	case shape.to != nil:
		value = fmt.Sprintf(" : %s . %d", e.Second.Addr(), e.ToPort)
	}
	add := fmt.Sprintf("%s element %s { %s%s }", verb, place(f, n.TableOf(e), e.Set), member(&e, shape.fields), value)
	if o.Verb == kernel.Change { // nft does not change a value
		return fmt.Sprintf("delete element %s { %s }\n%s", place(f, n.TableOf(e), e.Set), member(&e, shape.fields), add)
	}
	return add
}

// member is the key of an entry.
func member(e *kernel.Entry, fields []field) string {
	var parts []string
	if e.IsNet() {
		return strings.TrimSuffix(e.Second.String(), fmt.Sprintf("/%d", e.Addr.BitLen()))
	}
	for _, f := range fields {
		switch f {
		case addrField:
			parts = append(parts, e.Addr.String())
		case protoField:
			proto := e.Proto.String()
			if e.Proto == kernel.FWMark {
				proto = strconv.Itoa(int(e.Proto)) // reserved: no protocol has the number
			}
			parts = append(parts, proto)
		case portField:
			parts = append(parts, strconv.Itoa(int(e.Port)))
		case slotField:
			parts = append(parts, slotText(e.Slot))
		case secondField:
			parts = append(parts, strings.TrimSuffix(e.Second.String(), fmt.Sprintf("/%d", e.Second.Addr().BitLen())))
		}
	}
	return strings.Join(parts, " . ")
}

// slotText is a slot as nft writes a class id.
func slotText(n uint16) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("0:%x", n)
}

var hookNames = [...]string{"prerouting", "input", "forward", "output", "postrouting"} // by number

func chainText(o kernel.Op, c kernel.Chain, n kernel.Names) string {
	table := n.TableOf(c)
	at := place(c.Family, table, chainName(c.Table, c.Name))
	class := fmt.Sprintf("element %s { %s", place(c.Family, table, classes(n, c.Family)), classText(classOf(c.Name)))
	switch {
	case o.Verb == kernel.Remove && isClass(n, c):
		return "delete " + class + " }\ndelete chain " + at
	case o.Verb == kernel.Remove:
		return "delete chain " + at
	}
	var b strings.Builder
	switch base, ok := hooks[c.Table][c.Name]; {
	case o.Verb == kernel.Change:
		b.WriteString("flush chain " + at)
	case ok:
		fmt.Fprintf(&b, "add chain %s { type %s hook %s priority %d; policy accept; }", at, base.kind,
			hookNames[base.hook], base.priority)
	default:
		b.WriteString("add chain " + at)
	}
	if isClass(n, c) && o.Verb == kernel.Add {
		fmt.Fprintf(&b, "\nadd %s : goto %s }", class, chainName(c.Table, c.Name))
	}
	if c.Rules == "" {
		return b.String()
	}
	for words := range strings.SplitSeq(c.Rules, "\n") {
		r, err := compile(n, c.Family, c.Table, words)
		if err != nil {
			fmt.Fprintf(&b, "\n# %s %s", at, words)
			continue
		}
		if r.comment != "" {
			r.text = append(r.text, `comment "`+plainComment(r.comment)+`"`)
		}
		fmt.Fprintf(&b, "\nadd rule %s %s", at, strings.Join(r.text, " "))
	}
	return b.String()
}

// addrText is an address as text.
func addrText(p []byte) string {
	a, _ := netip.AddrFromSlice(p)
	return a.String()
}
