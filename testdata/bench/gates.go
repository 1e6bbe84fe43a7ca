package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/svcproxy/svcproxy/kernel"
)

// A gate is something that a run should show: a quotient of two cells, or one cell,
// with its bound. One without a bound is only printed.
//
// Gates on svcproxy's own work count instructions, which other load does not disturb.
// Gates on how much sooner svcproxy is ready than another program use wall time,
// because that includes system calls and waits.
type gate struct {
	what     string
	of, per  cell // per is the zero cell for a plain amount
	less     cell // what of has at next to no services, if that is not to count
	value    func(sample) float64
	perValue func(sample) float64 // of per, where it is another
	least    float64              // one of the two is set
	most     float64
	unit     string
	paired   bool   // the two were measured by turns, and the bound is passed only if that is certain
	instead  string // of a bound: why there is none
}

// judgedBy takes the bound away where another clock judges.
func (g gate) judgedBy(judge, clock string) gate {
	if judge != clock {
		g.least, g.most, g.instead = 0, 0, "judged by "+judge
	}
	return g
}

func instructions(s sample) float64 { return float64(s.Nanos) }
func inside(s sample) float64       { return float64(s.Kernel) }
func millions(s sample) float64     { return float64(s.Nanos) / 1e6 }
func number(s sample) float64       { return float64(s.Number) }
func megabytes(s sample) float64    { return float64(s.Resident) / 1e6 }

// gates prints which acceptance criteria this run meets, and how many it does not.
func (b *bench) gates(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n\tCRITERION\tMEASURED\tBOUND\n")
	count := map[string]int{}
	for _, g := range b.criteria() {
		v, ok := b.figure(g)
		if !ok && (b.run.String() != "" || g.least == 0 && g.most == 0) {
			continue // it was not asked for, or another run judges it
		}
		verdict, measured := g.verdict(v), v.String()+g.unit
		if !ok {
			verdict, measured = "NOT MEASURED", ""
		}
		count[verdict]++
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", verdict, g.what, measured, g.bound())
	}
	w.Flush()
	fmt.Fprintf(out, "\n%d criteria hold, %d do not, %d were not measured\n", count[holds], count[fails], count["NOT MEASURED"])
}

// figure is what a gate came to; false if a cell of it was not measured.
func (b *bench) figure(g gate) (figure, bool) {
	of, ok := b.median(g.of)
	if g.paired {
		return middle(b.quotients(g.of, g.per, g.value)), ok
	}
	if ok && g.less != (cell{}) {
		less, ok := b.median(g.less)
		return exactly(g.value(of) - g.value(less)), ok
	}
	if !ok || g.per == (cell{}) {
		return exactly(g.value(of)), ok
	}
	per, ok := b.median(g.per)
	if g.perValue == nil {
		g.perValue = g.value
	}
	return exactly(g.value(of) / g.perValue(per)), ok
}

const holds, fails = "holds", "DOES NOT HOLD"

func (g gate) verdict(v figure) string {
	switch {
	case g.least == 0 && g.most == 0:
		return ""
	case g.least > 0 && v.value >= g.least, g.least == 0 && v.value <= g.most:
		return holds
	case g.paired && v.low <= g.most:
		return holds
	}
	return fails
}

func (g gate) bound() string {
	switch {
	case g.least > 0:
		return fmt.Sprintf("at least %v%s", g.least, g.unit)
	case g.paired && g.most > 0:
		return fmt.Sprintf("at most %v%s, within noise", g.most, g.unit)
	case g.most > 0:
		return fmt.Sprintf("at most %v%s", g.most, g.unit)
	}
	return g.instead
}

// criteria are those of this run's sizes and families, and those that have no size.
func (b *bench) criteria() []gate {
	var all []gate
	for _, sz := range b.sizes {
		for _, f := range b.families {
			all = append(all, against(sz, f.String(), b.clock)...)
			all = append(all, alone(sz, f.String())...)
			if f == kernel.IPv4 {
				all = append(all, modeGates(sz)...)
			}
			if b.clock == "instructions" {
				all = append(all, counted(sz, f.String())...)
			}
		}
	}
	for _, f := range b.families {
		all = append(all, flowsOf(f.String(), b.clock)...)
		if f == kernel.IPv4 {
			all = append(all, paths()...)
			if b.clock == "wall" {
				all = append(all, boots()...)
				all = append(all, bigGates()...)
				all = append(all, soakGates()...)
				all = append(all, churnGates()...)
			}
			if b.clock == "instructions" {
				all = append(all, outages()...)
				all = append(all, upkeeps()...)
			}
		}
	}
	return all
}

// against are those that compare with others.
func against(sz size, family, clock string) []gate {
	at := func(row, by string) cell { return cell{row, by, sz.String(), family} }
	named := func(what string) string { return fmt.Sprintf("%v %s: %s", sz, family, what) }
	times := func(what string, others, ours cell, least float64) gate {
		return gate{what: named(what), of: others, per: ours, value: instructions, least: least, unit: "x"}
	}
	floor := func(row string) gate {
		return gate{
			what: named(row + ", of the floor of the same messages"),
			of:   at(row, "svcproxy"), per: at(row, "floor"), value: instructions, most: 1.3, unit: "x",
		}.judgedBy("instructions", clock)
	}
	// The stricter of the two: what svcproxy adds to its own time in the kernel.
	within := func(row string) gate {
		return gate{
			what: named(row + ", of its own time in netlink's system calls"),
			of:   at(row, "svcproxy"), per: at(row, "svcproxy"), value: instructions, perValue: inside, most: 1.3, unit: "x",
		}.judgedBy("instructions", clock)
	}
	const start, save, one = startRow, saveRow, "one endpoint: kernel"
	const variedStart, variedSave = startRow + ofVaried, saveRow + ofVaried
	all := []gate{
		floor("load"), floor("load ipvs"), floor("load ipset"), floor("load vips"),
		within("load"), within("load ipvs"), within("load ipset"), within("load vips"),
		times("IPVS load, one call at a time", at("load ipvs", "library"), at("load ipvs", "svcproxy"), 3.5),
		times("ipset fill, one call at a time", at("load ipset", "library"), at("load ipset", "svcproxy"), 8),
		times("ipset read, by the library", at("read ipset", "library"), at("read ipset", "svcproxy"), 15),
		times("one endpoint, dump and compare", at(one, "library"), at(one, "svcproxy"), 1000).judgedBy("instructions", clock), // its wall time is within the noise
		times("start to last real server, keepalived", at(start, "keepalived"), at(start, "svcproxy"), 2).judgedBy("wall", clock),
		times("saved file to kernel, keepalived", at(save, "keepalived"), at(save, "svcproxy"), 1),
		times("start to last real server, varied file, keepalived", at(start, "keepalived"), at(variedStart, "svcproxy"), 1.5).judgedBy("wall", clock),
		times("saved file to kernel, varied file, keepalived", at(save, "keepalived"), at(variedSave, "svcproxy"), 1.5).judgedBy("wall", clock),
		{
			what: named("start, varied file, of a generated one"),
			of:   at(variedStart, "svcproxy"), per: at(start, "svcproxy"), value: instructions, most: 1.5, unit: "x",
		},
		times("start to last real server, HAProxy", at(start, "haproxy"), at(start, "svcproxy"), 1.5).judgedBy("wall", clock),
		times("saved file to kernel, HAProxy", at(save, "haproxy"), at(save, "svcproxy"), 1.5).judgedBy("wall", clock),
		times("programming alone, keepalived's start", at(start, "keepalived"), at("load ipvs", "svcproxy"), 10).judgedBy("wall", clock),
		{
			what: named("the kernel's part of programming, keepalived's start"),
			of:   at(start, "keepalived"), per: at("load ipvs", "svcproxy"), value: instructions, perValue: inside, unit: "x",
			instead: "no program can show more",
		},
		times("emitted table to kernel, keepalived's reload", at(save, "keepalived"), at(oneEndpoint, "svcproxy"), 50),
	}
	if sz.services >= 10000 {
		routes := times("VIPs, a route and a call each", at("load vips", "library"), at("load vips", "svcproxy"), 0)
		routes.instead = "routes are what makes the difference"
		all = append(all, routes, times("VIPs, an address and a call each", at("load vips, as addresses", "library"), at("load vips", "svcproxy"), 10))
	}
	return all
}

// alone are those about svcproxy's memory.
func alone(sz size, family string) []gate {
	at := func(row string) cell { return cell{row, "svcproxy", sz.String(), family} }
	named := func(what string) string { return fmt.Sprintf("%v %s: %s", sz, family, what) }
	var all []gate
	if most, ok := map[size]float64{{1000, 10}: 40, {10000, 10}: 150}[sz]; ok {
		for _, row := range []string{"resident", "resident, after a change"} {
			all = append(all, gate{what: named(row), of: at(row), value: megabytes, most: most, unit: " MB"})
		}
	}
	if sz == (size{1000, 10}) {
		const row = "resident, without API servers"
		all = append(all, gate{what: named(row), of: at(row), value: megabytes, most: 25, unit: " MB"})
	}
	return all
}

// counted are those that are a number of instructions.
func counted(sz size, family string) []gate {
	at := func(row string) cell { return cell{row, "svcproxy", sz.String(), family} }
	named := func(what string) string { return fmt.Sprintf("%v %s: %s", sz, family, what) }
	all := []gate{{
		what: named("emitted table to kernel, each service more"), of: at(oneEndpoint), less: at(oneOfFew),
		value: func(s sample) float64 { return float64(s.Nanos) / float64(sz.services-few) }, most: 2000, unit: " instructions",
	}}
	if sz == (size{5000, 5}) {
		most := map[string]float64{"IPv4": 60, "IPv6": 250}[family]
		// A check of everything at once happens only on request, so it is printed and not gated.
		all = append(all,
			gate{what: named("check of parts: the dearest"), of: at("check of parts: the dearest"), value: millions, most: most, unit: " M instructions"},
			gate{what: named("idle check"), of: at("idle check"), value: millions, unit: " M instructions"},
		)
	}
	return all
}

func flowsOf(family, clock string) []gate {
	var all []gate
	for _, row := range []string{flowsRow, flowsOwnPortRow} {
		at := func(by string) cell { return cell{row: row, by: by, family: family} }
		all = append(all, gate{
			what: family + ": " + row + ", by the library",
			of:   at("library"), per: at("svcproxy"), value: instructions, least: 50, unit: "x",
		}.judgedBy("instructions", clock))
	}
	return all
}

// paths are those of the data path.
func paths() []gate {
	once := func(row, by string) cell { return cell{row: row, by: by} }
	var all []gate
	for _, row := range []string{"one connection", "1 MiB"} {
		few, many := once(row+", of 10 services", "svcproxy"), once(row+", of 5000 services", "svcproxy")
		all = append(all,
			gate{what: row + ": 5,000 services, of 10", of: many, per: few, value: instructions, most: 1.03, unit: "x", paired: true},
			gate{
				what: row + ": svcproxy, of the same made by hand",
				of:   many, per: once(row+", of 5000 services", "ipvsadm, same rules"), value: instructions, most: 1.03, unit: "x", paired: true,
			},
			gate{what: row + ": of kube-proxy's layout", of: many, per: once(row+", of 5000 services", byKubeProxy), value: instructions, unit: "x", paired: true},
			gate{what: row + " with SNAT: of kube-proxy's layout", of: once(row+", of 5000 services", bySNAT), per: once(row+", of 5000 services", byKubeProxySNAT), value: instructions, unit: "x", paired: true},
			gate{what: row + ": of ipvsadm without rules", of: many, per: once(row+", of 5000 services", "ipvsadm"), value: instructions, unit: "x", paired: true},
		)
	}
	return all
}

// boots are those of a start after a boot. With the packages nothing is loaded on demand then, so that is not bounded.
func boots() []gate {
	at := func(row, by string) cell { return cell{row: row, by: by} }
	gates := []gate{
		{what: bootRow + ", of loaded before", of: at(bootRow, "svcproxy"), per: at(warmRow, "svcproxy"), value: instructions, most: 2, unit: "x"},
		{what: coldRow + ", of loaded before", of: at(coldRow, "svcproxy"), per: at(warmRow, "svcproxy"), value: instructions, unit: "x"},
	}
	gates = append(gates,
		gate{what: warmRow + ", of iptables' programs alone", of: at(warmRow, "svcproxy"), per: at(rulesRow, "iptables"), value: instructions, unit: "x"},
		gate{what: coldRow + ", of modprobe alone", of: at(coldRow, "svcproxy"), per: at(modulesRow, "modprobe"), value: instructions, unit: "x"},
	)
	for _, row := range []string{warmRow, coldRow} {
		gates = append(gates, gate{what: row + ", keepalived", of: at(row, "keepalived"), per: at(row, "svcproxy"), value: instructions, unit: "x"})
	}
	return gates
}
