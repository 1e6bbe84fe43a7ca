package iptables

import (
	"iter"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// section is the part of an iptables-restore input for one table. Each table is committed as a
// whole, one after the other.
type section struct {
	table string
	ops   []int // indexes in the caller's ops
}

// sections groups the ops of one family by table.
func sections(f kernel.Family, ops []kernel.Op) []section {
	var ss []section
	for _, table := range tables {
		s := section{table: table}
		for i, op := range ops {
			if c := chainOf(op); c.Family == f && c.Table == table {
				s.ops = append(s.ops, i)
			}
		}
		if s.ops != nil {
			ss = append(ss, s)
		}
	}
	return ss
}

func chainOf(op kernel.Op) kernel.Chain {
	c, _ := op.Object.(kernel.Chain)
	return c
}

// input is the text for iptables-restore --noflush, with the origin of each line.
type input struct {
	text  strings.Builder
	lines []line
	edits map[int][]string
}

// line is the origin of a line: the index of its section, and of its op, -1 if it is of the whole
// table.
type line struct{ section, op int }

// write returns the input for the sections. The ops in keep remove a chain that cannot be removed,
// so they only empty it. The ops in edits change their chain by these lines.
func write(ss []section, ops []kernel.Op, keep map[int]bool, edits map[int][]string) *input {
	in := &input{edits: edits}
	in.grow(ss, ops)
	for n, s := range ss {
		in.section(n, s, ops, keep)
	}
	return in
}

// grow makes room for the rules of the sections. The input for 5,000 services has 5 MB, and a buffer
// that doubles would copy it several times.
func (in *input) grow(ss []section, ops []kernel.Op) {
	const around = len("-A : - [0:0]\n")
	size, lines := 0, 0
	for _, s := range ss {
		for _, i := range s.ops {
			c := chainOf(ops[i])
			n := 2 + strings.Count(c.Rules, "\n")
			lines += n
			size += len(c.Rules) + n*(around+len(c.Name))
		}
	}
	in.text.Grow(size)
	in.lines = make([]line, 0, lines)
}

// add writes a line of the words, for an op of a section.
func (in *input) add(section, op int, words ...string) {
	for _, w := range words {
		in.text.WriteString(w)
	}
	in.text.WriteByte('\n')
	in.lines = append(in.lines, line{section, op})
}

func (in *input) section(n int, s section, ops []kernel.Op, keep map[int]bool) {
	in.add(n, -1, "*", s.table)
	// A line with the name of a chain creates it, or empties it. All of these come first. So no
	// rule names a chain that does not exist yet, and no rule is left that jumps to a chain to be
	// removed. If that one was removed already, it is created and removed again.
	for _, i := range s.ops {
		if c := chainOf(ops[i]); !c.BuiltIn() && in.edits[i] == nil {
			in.add(n, i, ":", c.Name, " - [0:0]")
		}
	}
	for _, i := range s.ops {
		switch c := chainOf(ops[i]); {
		case c.BuiltIn():
			in.jumps(n, i, ops[i])
		case in.edits[i] != nil:
			for _, edit := range in.edits[i] {
				in.add(n, i, edit)
			}
		case ops[i].Verb != kernel.Remove:
			for rule := range rules(c) {
				in.add(n, i, "-A ", c.Name, " ", rule)
			}
		}
	}
	for _, i := range s.ops {
		if c := chainOf(ops[i]); ops[i].Verb == kernel.Remove && !c.BuiltIn() && !keep[i] {
			in.add(n, i, "-X ", c.Name)
		}
	}
	in.add(n, -1, "COMMIT")
}

// jumps replaces our rules in a built-in chain.
func (in *input) jumps(n, i int, op kernel.Op) {
	c := chainOf(op)
	was, _ := op.Was.(kernel.Chain)
	for rule := range rules(was) {
		in.add(n, i, "-D ", c.Name, " ", rule)
	}
	if op.Verb == kernel.Remove {
		return
	}
	// Each rule goes to the front, so the last one is inserted first.
	for _, rule := range slices.Backward(slices.Collect(rules(c))) {
		in.add(n, i, "-I ", c.Name, " ", rule)
	}
}

func rules(c kernel.Chain) iter.Seq[string] {
	if c.Rules == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(c.Rules, "\n")
}
