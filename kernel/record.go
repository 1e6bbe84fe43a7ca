package kernel

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Record is what a file says about virtual servers. It is a second proof of ownership:
// the ownership set can be emptied by hand and the file can be lost, but only both
// together make an owned virtual server foreign.
type Record struct {
	// Made lists the owned virtual servers as they were made, sorted.
	Made []Virtual
	// Left lists those that kube-proxy left and no service wanted, sorted. They are not
	// owned.
	Left []Virtual
}

// The record's text has a line for each virtual server, as ipvsadm-save prints it. It is
// a journal of Made: -D removes one again. Those of Left are marked.
const leftMark = directive + "left "

// AppendRecord appends the whole record.
func AppendRecord(text []byte, r Record) []byte {
	for _, v := range r.Left {
		text = append(append(append(text, leftMark...), v.String()...), '\n')
	}
	return AppendMade(text, nil, r.Made)
}

// AppendMade appends the lines that change Made from was to now; both are sorted.
func AppendMade(text []byte, was, now []Virtual) []byte {
	Walk(now, was, func(a, b *Virtual) bool { return *a == *b }, Virtual.Compare, func(w, h *Virtual) {
		if w != nil {
			text = append(text, w.String()...)
		} else {
			text = append(append(text, "-D "...), h.Key.String()...)
		}
		text = append(text, '\n')
	})
	return text
}

// ParseRecord reads a record's text and counts its lines. It ignores a last line without
// its end: the process was killed while writing it.
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
	slices.SortFunc(r.Made, Virtual.Compare)
	sortUnique(&r.Left, Virtual.Compare)
	return r, lines, nil
}

func (r *Record) line(s string, made map[VirtualKey]Virtual) error {
	rest, left := strings.CutPrefix(s, leftMark)
	f := strings.Fields(rest)
	switch {
	case len(f) > 0 && f[0] == "-A":
		v, err := parseVirtual(f)
		if err != nil {
			return err
		}
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
