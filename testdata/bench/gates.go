package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// A gate is something that a run should show: a quotient of two cells, or one cell,
// with its bound. Cells of what was not measured make no verdict.
type gate struct {
	what    string
	of, per cell // per is the zero cell for a plain amount
	value   func(sample) float64
	least   float64 // one of the two is set
	most    float64
	unit    string
}

func instructions(s sample) float64 { return float64(s.Nanos) }
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
			v /= g.value(per)
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

// criteria are those of this run's sizes.
func (b *bench) criteria() []gate {
	var all []gate
	for _, sz := range b.sizes {
		for _, family := range []string{"IPv4", "IPv6"} {
			at := func(row, by string) cell { return cell{row, by, sz.String(), family} }
			times := func(what, row, others string, least float64) gate {
				return gate{
					what: fmt.Sprintf("%v %s: %s", sz, family, what), of: at(row, others), per: at(row, "svcproxy"),
					value: instructions, least: least, unit: "x",
				}
			}
			part := func(p string) gate {
				return gate{
					what: fmt.Sprintf("%v %s: %s, of the floor of the same messages", sz, family, p),
					of:   at(p, "svcproxy"), per: at(p, "floor"), value: instructions, most: 1.3, unit: "x",
				}
			}
			all = append(all, part("load"), part("load ipvs"), part("load ipset"), part("load vips"),
				times("IPVS load, one call at a time", "load ipvs", "library", 3.5),
				times("ipset fill, one call at a time", "load ipset", "library", 8),
				times("ipset read, by the library", "read ipset", "library", 15),
				times("start to last real server, keepalived", "start to last real server", "keepalived", 2),
				times("saved file to kernel, keepalived", "saved file to kernel, one endpoint", "keepalived", 1),
				gate{
					what: fmt.Sprintf("%v %s: programming alone, keepalived's start", sz, family),
					of:   at("start to last real server", "keepalived"), per: at("load ipvs", "svcproxy"), value: instructions, least: 10, unit: "x",
				},
				gate{
					what: fmt.Sprintf("%v %s: emitted table to kernel, keepalived's reload", sz, family),
					of:   at("saved file to kernel, one endpoint", "keepalived"), per: at("table to kernel, one endpoint", "svcproxy"),
					value: instructions, least: 50, unit: "x",
				},
				gate{
					what: fmt.Sprintf("%v %s: one endpoint, dump and compare", sz, family),
					of:   at("one endpoint: kernel", "library"), per: at("one endpoint: kernel", "svcproxy"), value: instructions, least: 1000, unit: "x",
				},
				gate{
					what:  fmt.Sprintf("%v %s: emitted table to kernel, per service", sz, family),
					of:    at("table to kernel, one endpoint", "svcproxy"),
					value: func(s sample) float64 { return float64(s.Nanos) / float64(sz.services) }, most: 2000, unit: " instructions",
				},
				gate{
					what: fmt.Sprintf("%v %s: resident", sz, family), of: at("resident", "svcproxy"), value: megabytes,
					most: map[size]float64{{1000, 10}: 40, {5000, 5}: 80, {10000, 10}: 150}[sz], unit: " MB",
				},
			)
			if most, ok := map[string]float64{"IPv4": 60, "IPv6": 250}[family]; ok && sz == (size{5000, 5}) {
				all = append(all, gate{
					what: fmt.Sprintf("%v %s: idle check", sz, family), of: at("idle check", "svcproxy"), value: millions, most: most, unit: " M instructions",
				})
			}
			if sz.services == 10000 {
				all = append(all, times("10,000 VIPs, one call at a time", "load vips", "library", 10))
			}
		}
	}
	once := func(row, by string) cell { return cell{row: row, by: by} }
	const flows = "2,000 flows of 200,000"
	all = append(all, gate{
		what: "flows of one VIP of 200,000, by the library", of: once(flows, "library"), per: once(flows, "svcproxy"), value: instructions, least: 50, unit: "x",
	})
	for _, row := range []string{"one connection", "1 MiB"} {
		few, many := row+", of 10 services", row+", of 5000 services"
		all = append(all,
			gate{what: row + ": 5,000 services, of 10", of: once(many, "svcproxy"), per: once(few, "svcproxy"), value: instructions, most: 1.03, unit: "x"},
			gate{what: row + ": svcproxy, of the same made by hand", of: once(many, "svcproxy"), per: once(many, "ipvsadm, same rules"), value: instructions, most: 1.03, unit: "x"},
		)
	}
	return all
}
