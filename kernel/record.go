package kernel

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Record is what a file says about virtual servers. It is a second proof of ownership:
// the ownership set can be emptied by hand and the file can be lost, but only both
// together make an owned virtual server foreign.
type Record struct {
	// Made lists the owned virtual servers as they were made, sorted.
	Made []Virtual
	// Digests are those of the virtual servers of Made that have a real server that does not masquerade, sorted.
	// Programs that forward directly make the same virtual servers, so these are only known by their real servers.
	Digests []VirtualDigest
	// Left lists those that kube-proxy left and no service wanted, sorted. They are not
	// owned.
	Left []Virtual
}

// VirtualDigest is the digest of a virtual server when svcproxy last changed it.
type VirtualDigest struct {
	Virtual VirtualKey
	Digest  Digest
}

// Compare orders by virtual server.
func (d VirtualDigest) Compare(o VirtualDigest) int { return d.Virtual.Compare(o.Virtual) }

// String is a line of the record.
func (d VirtualDigest) String() string {
	return fmt.Sprintf("%s%s %s", digestMark, d.Virtual, d.Digest)
}

// The record's text has a line for each virtual server, as ipvsadm-save prints it. It is
// a journal of Made: -D removes one again. Those of Left are marked.
const (
	leftMark   = directive + "left "
	digestMark = directive + "digest "
)

// AppendRecord appends the whole record.
func AppendRecord(text []byte, r Record) []byte {
	text = slices.Grow(text, 48*len(r.Made)) // most lines are shorter
	for _, v := range r.Left {
		text = append(append(append(text, leftMark...), v.String()...), '\n')
	}
	return AppendChanges(text, Record{}, r)
}

// AppendChanges appends the lines that change Made and Digests of one record to those of another.
func AppendChanges(text []byte, was, now Record) []byte {
	text = AppendMade(text, was.Made, now.Made)
	Walk(now.Digests, was.Digests, func(a, b *VirtualDigest) bool {
		return *a == *b
	}, VirtualDigest.Compare, func(w, h *VirtualDigest) {
		if w == nil {
			w = &VirtualDigest{Virtual: h.Virtual} // 0: none
		}
		text = append(append(text, w.String()...), '\n')
	})
	return text
}

// AppendMade appends the lines that change Made from was to now; both are sorted.
func AppendMade(text []byte, was, now []Virtual) []byte {
	Walk(now, was, func(a, b *Virtual) bool { return *a == *b }, Virtual.Compare, func(w, h *Virtual) {
		if w != nil {
			text = w.append(text)
		} else {
			text = h.Key.append(append(text, "-D "...))
		}
		text = append(text, '\n')
	})
	return text
}

// ParseRecord reads a record's text and counts its lines. It ignores a last line without
// its end: the process was killed while writing it.
func ParseRecord(text []byte) (r Record, lines int, err error) {
	made, digests := make(map[VirtualKey]Virtual), make(map[VirtualKey]Digest)
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break
		}
		lines++
		if err := r.line(strings.TrimSuffix(string(line), "\n"), made, digests); err != nil {
			return Record{}, 0, fmt.Errorf("line %d: %w", lines, err)
		}
	}
	for _, v := range made {
		r.Made = append(r.Made, v)
	}
	for k, d := range digests {
		if _, exists := made[k]; exists && d != 0 {
			r.Digests = append(r.Digests, VirtualDigest{k, d})
		}
	}
	SortFunc(r.Made, Virtual.Compare)
	SortFunc(r.Digests, VirtualDigest.Compare)
	sortUnique(&r.Left, Virtual.Compare)
	return r, lines, nil
}

func (r *Record) line(s string, made map[VirtualKey]Virtual, digests map[VirtualKey]Digest) error {
	if words, ok := strings.CutPrefix(s, digestMark); ok {
		d, err := parseVirtualDigest(strings.Fields(words))
		digests[d.Virtual] = d.Digest
		return err
	}
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

// parseVirtualDigest reads: -t ADDRESS:PORT DIGEST.
func parseVirtualDigest(f []string) (d VirtualDigest, err error) {
	k, rest, err := parseVirtualKey(f)
	if err != nil {
		return d, err
	}
	if len(rest) != 1 || len(rest[0]) != digestDigits {
		return d, fmt.Errorf("want a virtual server and its digest of %d digits", digestDigits)
	}
	n, err := strconv.ParseUint(rest[0], 16, 4*digestDigits)
	if err != nil {
		return d, fmt.Errorf("digest %q: %w", rest[0], err)
	}
	return VirtualDigest{k, Digest(n)}, nil
}
