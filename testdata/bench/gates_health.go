package main

import "fmt"

// outages are the criteria of outages. A client opens 10 connections a second, and a
// third of them meets the backend that fails: 3 s are 10 lost connections, and 9 s
// are 30.
func outages() []gate {
	most := map[string]float64{"refused": 11, "dropped": 31, "answers 500": 11}
	var all []gate
	for _, f := range faults {
		lost := func(by string, row string) cell { return cell{row: f.name + ": " + row, by: by} }
		all = append(all,
			gate{what: f.name + ": lost connections, at most", of: lost(svcproxyChecks.by, lostRow+worst), value: number, most: most[f.name]},
			gate{
				what: f.name + ": lost connections, keepalived with its defaults",
				of:   lost(keepalivedChecks.by, lostRow), per: lost(svcproxyChecks.by, lostRow), value: number, least: 1.5, unit: "x",
			},
			gate{
				what: f.name + ": lost connections, of keepalived set alike",
				of:   lost(svcproxyChecks.by, lostRow+worst), per: lost(keepalivedAlike.by, lostRow+worst), value: number, most: 1.5, unit: "x",
			},
		)
	}
	return all
}

// upkeeps are the criteria of what checks cost while nothing happens.
func upkeeps() []gate {
	var all []gate
	for _, sz := range upkeepSizes {
		at := func(what, by string) cell { return cell{row: upkeepRow(sz, what), by: by} }
		named := func(what string) string { return fmt.Sprintf("%d tcp targets: %s", sz.services*sz.endpoints, what) }
		all = append(all,
			gate{
				what: named("processor time of a probe, of keepalived's"),
				of:   at(upkeepProbe, "svcproxy"), per: at(upkeepProbe, "keepalived"), value: instructions, most: 1, unit: "x",
			},
			gate{
				what: named("tracked connections, keepalived"),
				of:   at(upkeepTracked, "keepalived"), per: at(upkeepTracked, "svcproxy"), value: number, least: 1.5, unit: "x",
			},
		)
	}
	return all
}
