package kernel

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Record is what is remembered of virtual servers outside the kernel. It is a second
// witness of what is ours: the ownership set can be emptied by hand, the record can
// be lost with its file, and only both together make one of ours foreign.
type Record struct {
	// Made are the virtual servers that are ours, as they were made, sorted.
	Made []Virtual
	// Left are those that kube-proxy left and no service wanted, sorted. They are
	// not ours.
	Left []Virtual
}

// The record's text has a line for each virtual server, as ipvsadm-save prints it,
// and is a journal of Made: -D takes one away again. Those of Left are marked.
const leftMark = directive + "left "

// AppendRecord appends the whole record.
func AppendRecord(text []byte, r Record) []byte {
	for _, v := range r.Left {
		text = append(append(append(text, leftMark...), v.String()...), '\n')
	}
	return AppendMade(text, nil, r.Made)
}

// AppendMade appends what makes a record of was one of now; both are sorted.
func AppendMade(text []byte, was, now []Virtual) []byte {
	walk(now, was, same, compareVirtual, func(w, h *Virtual) {
		if w != nil {
			text = append(text, w.String()...)
		} else {
			text = append(append(text, "-D "...), h.Key.String()...)
		}
		text = append(text, '\n')
	})
	return text
}

// ParseRecord reads a record's text and counts its lines. A last line without its
// end was being written when the process was killed, and is passed over.
func ParseRecord(text []byte) (r Record, lines int, err error) {
	made := make(map[VirtualKey]Virtual)
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break
		}
		lines++
		if err := r.line(strings.TrimSuffix(string(line), "\n"), made); err != nil {
			return Record{}, 0, fmt.Errorf("line %d: %w", lines, err)
		}
	}
	for _, v := range made {
		r.Made = append(r.Made, v)
	}
	slices.SortFunc(r.Made, compareVirtual)
	sortUnique(&r.Left, compareVirtual)
	return r, lines, nil
}

func (r *Record) line(s string, made map[VirtualKey]Virtual) error {
	rest, left := strings.CutPrefix(s, leftMark)
	f := strings.Fields(rest)
	switch {
	case len(f) > 0 && f[0] == "-A":
		var p parser
		if err := p.virtual(f); err != nil {
			return err
		}
		v := p.o.Virtuals[0]
		if left {
			r.Left = append(r.Left, v)
		} else {
			made[v.Key] = v
		}
		return nil
	case len(f) > 0 && f[0] == "-D" && !left:
		k, rest, err := parseVirtualKey(f[1:])
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("words behind a virtual server's key")
		}
		delete(made, k)
		return err
	}
	return fmt.Errorf("want a virtual server, -A or -D")
}

// Concerns says whether an op may change what is ours.
func (n Names) Concerns(o Op) bool {
	switch v := o.Object.(type) {
	case Virtual:
		return true
	case Entry:
		return n.isSet(v.Set, IPv4, VirtualServer) || n.isSet(v.Set, IPv6, VirtualServer)
	}
	return false
}

// attests says whether a virtual server is as we made it by the record: its
// scheduler, flags, timeout and netmask, and that it masquerades. One that another
// program made in its place with another shape stays foreign.
func attests(made, have *Virtual, reals []Real) bool {
	if made == nil || *made != *have {
		return false
	}
	return !slices.ContainsFunc(realsOf(reals, have.Key), func(r Real) bool { return r.Forward != Masquerade })
}

// Making are the virtual servers that are ours, and as ops will make them. It is nil
// if they make none.
func (o *Observed) Making(ops []Op) []Virtual {
	var making []Virtual
	for _, op := range ops {
		if v, ok := op.Object.(Virtual); ok && op.Verb != Remove {
			making = append(making, v)
		}
	}
	if making == nil {
		return nil
	}
	making = append(making, o.Made()...)
	sortUnique(&making, compareVirtual) // of two the first, which is to be
	return making
}

// Made are the virtual servers that are ours and there: what a Record remembers.
// Where all are ours it is the reading's own slice.
func (o *Observed) Made() []Virtual {
	own := o.ownership()
	foreign := slices.IndexFunc(o.Virtuals, func(v Virtual) bool { return !own.has(&v) })
	if foreign < 0 {
		return o.Virtuals
	}
	own = o.ownership()
	return keep(o.Virtuals, func(v Virtual) bool { return own.has(&v) })
}
