package traffic

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A svcproxy that is killed in the middle of an outage goes on where it was: what is
// down gets nothing, and nothing is written, at the start and by the checks after it.
func TestRestartInTheMiddleOfAnOutage(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	n := newCheckedNode(t, "ipvs.syncPeriod = \"1s\"")
	check := "{ type = \"tcp\", " + patient + " }"
	services := []checkedService{
		{name: "web", vip: "10.96.3.1", port: 7301, check: check},
		{name: "hashed", vip: "10.96.3.2", port: 7301, check: check, more: "scheduler = \"mh\""},
		{name: "removed", vip: "10.96.3.3", port: 7301, check: check, more: "scheduler = \"dh\""},
		{name: "cut", vip: "10.96.3.4", port: 7301, check: strings.Replace(check, "}", ", onDown = \"cut\" }", 1)},
	}
	ports := n.openPorts(t, 7301, lines)
	n.start(t, textOf(services))
	mark := n.Log.Len()
	must(t, ports[0].Close())
	n.synced(t, mark) // one target and so one sync: conntrack and sets follow the weights
	n.becomes(t, patience, false, realsOf(services, 1)...)
	open, w := newLoad(t), n.watch(t)
	for _, name := range []string{"pod2", "pod3"} {
		c := n.hold(t, services[0].front(), name, (*lab.Conn).Ask)
		open.add("the open connection to "+name, w.unlessStarved(func() error { _, err := c.Ask(); return err }))
	}
	before := n.read(t)
	n.Kill()
	n.wantOnly(t, services[0].front(), 9, (*lab.Conn).Ask, "pod2", "pod3")

	must(t, n.StartTraced())
	const checks = 5 // the start's and four of the period: each endpoint is probed several times
	var trace lab.Trace
	parsed := 0
	must(t, lab.Eventually(5*time.Minute, func() error { // under strace a check takes a slow machine ten seconds
		reads, err := n.Traced(fullRead)
		if err != nil || reads == parsed {
			return cmp.Or(err, fmt.Errorf("%d readings of IPVS", reads))
		}
		parsed = reads
		if trace, err = n.Trace(); err != nil {
			return err
		}
		if starts := fullReads(trace); len(starts) <= checks {
			return fmt.Errorf("%d full readings of IPVS", len(starts))
		}
		return nil
	}))
	wantOnlyHeldTable(t, trace)
	w.wantNone(t, "over the restart")
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("the kernel before and after:\n%s", diff)
	}
	n.wantOnly(t, services[0].front(), 9, (*lab.Conn).Ask, "pod2", "pod3")

	must(t, ports[0].Open())
	n.becomes(t, patience, true, realsOf(services, 1)...)
	n.wantOnly(t, services[0].front(), 9, (*lab.Conn).Ask, "pod1", "pod2", "pod3")
	open.goOn(t, 10)
	open.wantServed(t)
}

// Rules have no weight 0, but their absence tells the next svcproxy what was down: it changes nothing, and neither does a plan in
// between. A service that checks have closed stays closed.
func TestRestartInTheMiddleOfAnOutageInModeIPTables(t *testing.T) {
	n := newCheckedNode(t, modeIPTables)
	check := "{ type = \"tcp\", " + patient + " }"
	services := []checkedService{
		{name: "web", vip: "10.96.3.1", port: 7303, check: check},
		{name: "closed", vip: "10.96.3.2", port: 7304, check: strings.Replace(check, "}", ", onAllDown = \"closed\" }", 1)},
	}
	ports := n.openPorts(t, 7303, lines)
	n.start(t, textOf(services))
	must(t, ports[0].Close())
	n.becomes(t, patience, false, services[0].real(1))
	for pod := 1; pod <= 3; pod++ {
		n.becomes(t, patience, false, services[1].real(pod))
	}
	n.eventually(t, patience, "status closed", "0 of 3 up, fail closed")
	before := n.read(t)
	n.Kill()
	if out, code, err := n.Command("plan", "--detailed-exitcode"); err != nil || code != 0 {
		t.Errorf("a plan would change something: %v, exit code %d\n%s", err, code, out)
	}
	mark := n.Log.Len()
	must(t, n.Start())
	n.wantOnly(t, services[0].front(), 9, (*lab.Conn).Ask, "pod2", "pod3")
	n.eventually(t, patience, "health", "10.2.1.10:7303", "2 of 6 targets up, 4 down")
	if said := n.Log.String()[mark:]; strings.Contains(said, "msg=synced") {
		t.Errorf("the start has changed something:\n%s", said)
	}
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("the kernel before and after:\n%s", diff)
	}
	must(t, ports[0].Open())
	n.becomes(t, patience, true, services[0].real(1))
	n.wantOnly(t, services[0].front(), 9, (*lab.Conn).Ask, "pod1", "pod2", "pod3")
}
