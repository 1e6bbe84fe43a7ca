package iptables

import (
	"fmt"
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
}

// line is the origin of a line: the index of its section, and of its op, -1 if it is of the whole
// table.
type line struct{ section, op int }

// write returns the input for the sections. The ops in keep remove a chain that cannot be removed,
// so they only empty it.
func write(ss []section, ops []kernel.Op, keep map[int]bool) *input {
	in := &input{}
	for n, s := range ss {
		in.section(n, s, ops, keep)
	}
	return in
}

func (in *input) section(n int, s section, ops []kernel.Op, keep map[int]bool) {
	add := func(op int, format string, args ...any) {
		fmt.Fprintf(&in.text, format+"\n", args...)
		in.lines = append(in.lines, line{n, op})
	}
	add(-1, "*%s", s.table)
	// A line with the name of a chain creates it, or empties it. All of these come first. So no
	// rule names a chain that does not exist yet, and no rule is left that jumps to a chain to be
	// removed. If that one was removed already, it is created and removed again.
	for _, i := range s.ops {
		if c := chainOf(ops[i]); !c.BuiltIn() {
			add(i, ":%s - [0:0]", c.Name)
		}
	}
	for _, i := range s.ops {
		c, remove := chainOf(ops[i]), ops[i].Verb == kernel.Remove
		if c.BuiltIn() {
			was, _ := ops[i].Was.(kernel.Chain)
			for _, rule := range rules(was) {
				add(i, "-D %s %s", c.Name, rule)
			}
		}
		if remove {
			continue
		}
		wanted := rules(c)
		for k, rule := range wanted {
			if c.BuiltIn() {
				// Each rule goes to the front, so the last one is inserted first.
				add(i, "-I %s %s", c.Name, wanted[len(wanted)-1-k])
			} else {
				add(i, "-A %s %s", c.Name, rule)
			}
		}
	}
	for _, i := range s.ops {
		if c := chainOf(ops[i]); ops[i].Verb == kernel.Remove && !c.BuiltIn() && !keep[i] {
			add(i, "-X %s", c.Name)
		}
	}
	add(-1, "COMMIT")
}

func rules(c kernel.Chain) []string {
	if c.Rules == "" {
		return nil
	}
	return strings.Split(c.Rules, "\n")
}
