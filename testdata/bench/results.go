package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// write leaves the samples as JSON lines, and as benchmarks in Go's format, in which
// benchstat compares two runs.
func (b *bench) write() error {
	if b.dir == "" {
		return nil
	}
	var lines, bench strings.Builder
	e := json.NewEncoder(&lines)
	for _, s := range b.samples {
		if err := e.Encode(s); err != nil {
			return err
		}
		fmt.Fprintln(&bench, s.benchmark())
	}
	if err := os.WriteFile(filepath.Join(b.dir, b.name+".jsonl"), []byte(lines.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, b.name+".txt"), []byte(bench.String()), 0o644)
}

// benchmark is one line of Go's benchmark format.
func (s sample) benchmark() string {
	var line strings.Builder
	name := strings.NewReplacer(" ", "_", ":", "", ",", "", "%", "percent").Replace(s.Row)
	fmt.Fprintf(&line, "Benchmark/row=%s/by=%s", name, strings.NewReplacer(" ", "_", ",", "").Replace(s.By))
	if s.Size != "" {
		fmt.Fprintf(&line, "/size=%s", s.Size)
	}
	if s.Family != "" {
		fmt.Fprintf(&line, "/family=%s", s.Family)
	}
	line.WriteString(" 1")
	switch {
	case s.Unit != "":
		fmt.Fprintf(&line, " %d %s", s.Number, strings.ReplaceAll(s.Unit, " ", "-"))
		return line.String()
	case s.Resident > 0:
		fmt.Fprintf(&line, " %d resident-B", s.Resident)
		return line.String()
	case s.Clock != "instructions":
		fmt.Fprintf(&line, " %d ns/op", s.Nanos)
	default:
		fmt.Fprintf(&line, " %d instr/op", s.Nanos)
	}
	if s.Kernel > 0 {
		fmt.Fprintf(&line, " %d in-netlink/op", s.Kernel)
	}
	fmt.Fprintf(&line, " %d syscalls/op %d messages/op %d execs/op", s.Syscalls, s.Messages, s.Execs)
	if s.Allocs > 0 {
		fmt.Fprintf(&line, " %d B/op %d allocs/op", s.Bytes, s.Allocs)
	}
	return line.String()
}

// A cell is what one way of doing one row came to.
type cell struct{ row, by, size, family string }

// cell is all samples of a cell, as they were taken.
func (b *bench) cell(c cell) (all []sample) {
	for _, s := range b.samples {
		if s.Row == c.row && s.By == c.by && s.Size == c.size && s.Family == c.family {
			all = append(all, s)
		}
	}
	return all
}

// median is the middle one of a cell's samples by time, memory or number; false where
// there is none.
func (b *bench) median(c cell) (sample, bool) {
	all := b.cell(c)
	if len(all) == 0 {
		return sample{}, false
	}
	// The lower of two: what disturbs adds.
	slices.SortFunc(all, func(x, y sample) int { return cmp.Compare(x.Nanos+x.Resident+x.Number, y.Nanos+y.Resident+y.Number) })
	return all[(len(all)-1)/2], true
}
