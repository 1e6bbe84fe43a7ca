package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table prints every row with the cost for svcproxy, and next to it the others with
// how many times as much it costs them.
func (b *bench) table(out io.Writer) {
	type group struct{ size, family string }
	var groups []group
	for _, s := range b.samples {
		if g := (group{s.Size, s.Family}); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	for _, g := range groups {
		title := strings.TrimSpace(g.size + " " + g.family)
		if g.size == "" {
			title = strings.TrimSpace("of no size " + g.family)
		}
		fmt.Fprintf(out, "\n%s, %s\n\n", title, b.unit())
		b.group(out, g.size, g.family)
	}
}

// unit says what the figures are.
func (b *bench) unit() string {
	if b.clock != "instructions" {
		return "milliseconds"
	}
	return "millions of instructions"
}

// group prints the rows of one size and family.
func (b *bench) group(out io.Writer, size, family string) {
	var rows, ways []string
	for _, s := range b.samples {
		if s.Size != size || s.Family != family {
			continue
		}
		if !slices.Contains(rows, s.Row) {
			rows = append(rows, s.Row)
		}
		if !slices.Contains(ways, s.By) {
			ways = append(ways, s.By)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, by := range ways {
		fmt.Fprintf(w, "%s\t\t", by)
	}
	fmt.Fprint(w, "in netlink\tsyscalls\tmessages\texecs\tallocs\tKiB\t\n")
	for _, row := range rows {
		base, ours := b.median(cell{row, "svcproxy", size, family})
		fmt.Fprintf(w, "%s\t", row)
		for _, by := range ways {
			c := cell{row, by, size, family}
			x, ok := b.median(c)
			ratio := ""
			if ours && ok && by != "svcproxy" && x.Nanos > 0 {
				ratio = fmt.Sprintf("x%.2f", float64(x.Nanos)/float64(base.Nanos))
			}
			fmt.Fprintf(w, "%s%s\t%s\t", amount(x, ok), b.spread(c), ratio)
		}
		if ours && base.Nanos > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", inNetlink(base), base.Syscalls, base.Messages, base.Execs, base.Allocs, base.Bytes>>10)
		} else {
			fmt.Fprint(w, "\t\t\t\t\t\t\n") // a row without a cell would end its column
		}
	}
	w.Flush()
}

// spread is between what the times of a cell lie, where they are wall time. Instructions repeat.
func (b *bench) spread(c cell) string {
	all := b.cell(c)
	if b.clock == "instructions" || len(all) < 2 || all[0].Nanos == 0 {
		return ""
	}
	byTime := func(x, y sample) int { return cmp.Compare(x.Nanos, y.Nanos) }
	return fmt.Sprintf(" (%s to %s)", amount(slices.MinFunc(all, byTime), true), amount(slices.MaxFunc(all, byTime), true))
}

func amount(s sample, ok bool) string {
	switch {
	case !ok:
		return ""
	case s.Unit != "":
		return fmt.Sprintf("%d %s", s.Number, s.Unit)
	case s.Resident > 0:
		return fmt.Sprintf("%.1f MiB", float64(s.Resident)/(1<<20))
	case s.Nanos < 1e6:
		return fmt.Sprintf("%.4f", float64(s.Nanos)/1e6)
	}
	return fmt.Sprintf("%.2f", float64(s.Nanos)/1e6)
}

func inNetlink(s sample) string { return amount(sample{Nanos: s.Kernel}, s.Kernel > 0) }
