package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// A gate is something that a run should show: a quotient of two cells, or one cell,
// with its bound. Cells of what was not measured make no verdict.
type gate struct {
	what     string
	of, per  cell // per is the zero cell for a plain amount
	value    func(sample) float64
	perValue func(sample) float64 // of per, where it is another
	least    float64              // one of the two is set
	most     float64
	unit     string
}

func instructions(s sample) float64 { return float64(s.Nanos) }
func inside(s sample) float64       { return float64(s.Kernel) }
func millions(s sample) float64     { return float64(s.Nanos) / 1e6 }
func megabytes(s sample) float64    { return float64(s.Resident) / 1e6 }

// gates prints which acceptance criteria this run meets.
func (b *bench) gates(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n\tCRITERION\tMEASURED\tBOUND\n")
	for _, g := range b.criteria() {
		of, ok := b.median(g.of)
		if !ok {
			continue
		}
		v := g.value(of)
		if g.per != (cell{}) {
			per, ok := b.median(g.per)
			if !ok {
				continue
			}
			if g.perValue == nil {
				g.perValue = g.value
			}
			v /= g.perValue(per)
		}
		bound, holds := fmt.Sprintf("at most %v%s", g.most, g.unit), v <= g.most
		if g.least > 0 {
			bound, holds = fmt.Sprintf("at least %v%s", g.least, g.unit), v >= g.least
		}
		verdict := "holds"
		if !holds {
			verdict = "DOES NOT HOLD"
		}
		fmt.Fprintf(w, "%s\t%s\t%.2f%s\t%s\n", verdict, g.what, v, g.unit, bound)
	}
	w.Flush()
}

// criteria are those of this run's sizes, and those that have none.
func (b *bench) criteria() []gate {
	var all []gate
	for _, sz := range b.sizes {
		for _, family := range []string{"IPv4", "IPv6"} {
			all = append(all, against(sz, family)...)
			all = append(all, alone(sz, family)...)
		}
	}
	return append(all, paths()...)
}

// against are those that compare with others.
func against(sz size, family string) []gate {
	at := func(row, by string) cell { return cell{row, by, sz.String(), family} }
	named := func(what string) string { return fmt.Sprintf("%v %s: %s", sz, family, what) }
	times := func(what string, others, ours cell, least float64) gate {
		return gate{what: named(what), of: others, per: ours, value: instructions, least: least, unit: "x"}
	}
	floor := func(row string) gate {
		return gate{
			what: named(row + ", of the floor of the same messages"),
			of:   at(row, "svcproxy"), per: at(row, "floor"), value: instructions, most: 1.3, unit: "x",
		}
	}
	// The stricter of the two: what svcproxy adds to its own time in the kernel.
	within := func(row string) gate {
		return gate{
			what: named(row + ", of its own time in netlink's system calls"),
			of:   at(row, "svcproxy"), per: at(row, "svcproxy"), value: instructions, perValue: inside, most: 1.3, unit: "x",
		}
	}
	const start, save, one = "start to last real server", "saved file to kernel, one endpoint", "one endpoint: kernel"
	all := []gate{
		floor("load"), floor("load ipvs"), floor("load ipset"), floor("load vips"),
		within("load"), within("load ipvs"), within("load ipset"), within("load vips"),
		times("IPVS load, one call at a time", at("load ipvs", "library"), at("load ipvs", "svcproxy"), 3.5),
		times("ipset fill, one call at a time", at("load ipset", "library"), at("load ipset", "svcproxy"), 8),
		times("ipset read, by the library", at("read ipset", "library"), at("read ipset", "svcproxy"), 15),
		times("one endpoint, dump and compare", at(one, "library"), at(one, "svcproxy"), 1000),
		times("start to last real server, keepalived", at(start, "keepalived"), at(start, "svcproxy"), 2),
		times("saved file to kernel, keepalived", at(save, "keepalived"), at(save, "svcproxy"), 1),
		times("programming alone, keepalived's start", at(start, "keepalived"), at("load ipvs", "svcproxy"), 10),
		times("emitted table to kernel, keepalived's reload", at(save, "keepalived"), at("table to kernel, one endpoint", "svcproxy"), 50),
	}
	if sz.services >= 10000 {
		all = append(all, times("VIPs, one call at a time", at("load vips", "library"), at("load vips", "svcproxy"), 10))
	}
	return all
}

// alone are those about svcproxy by itself.
func alone(sz size, family string) []gate {
	at := func(row string) cell { return cell{row, "svcproxy", sz.String(), family} }
	named := func(what string) string { return fmt.Sprintf("%v %s: %s", sz, family, what) }
	all := []gate{{
		what: named("emitted table to kernel, a service"), of: at("table to kernel, one endpoint"),
		value: func(s sample) float64 { return float64(s.Nanos) / float64(sz.services) }, most: 2000, unit: " instructions",
	}}
	if most, ok := map[size]float64{{1000, 10}: 40, {10000, 10}: 150}[sz]; ok {
		all = append(all, gate{what: named("resident"), of: at("resident"), value: megabytes, most: most, unit: " MB"})
	}
	if sz == (size{5000, 5}) {
		most := map[string]float64{"IPv4": 60, "IPv6": 250}[family]
		all = append(all, gate{what: named("idle check"), of: at("idle check"), value: millions, most: most, unit: " M instructions"})
	}
	return all
}

// paths are those of what has no size of its own.
func paths() []gate {
	once := func(row, by string) cell { return cell{row: row, by: by} }
	const flows = "2,000 flows of 200,000"
	all := []gate{{
		what: "flows of one VIP of 200,000, by the library",
		of:   once(flows, "library"), per: once(flows, "svcproxy"), value: instructions, least: 50, unit: "x",
	}}
	for _, row := range []string{"one connection", "1 MiB"} {
		few, many := once(row+", of 10 services", "svcproxy"), once(row+", of 5000 services", "svcproxy")
		all = append(all,
			gate{what: row + ": 5,000 services, of 10", of: many, per: few, value: instructions, most: 1.03, unit: "x"},
			gate{what: row + ": svcproxy, of the same made by hand", of: many, per: once(row+", of 5000 services", "ipvsadm, same rules"), value: instructions, most: 1.03, unit: "x"},
		)
	}
	return all
}
