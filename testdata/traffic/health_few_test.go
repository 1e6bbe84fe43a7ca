package traffic

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// judgedPort is a check on a port of its own, so that endpoints that are down still
// answer, and a test sees whether they are asked.
func judgedPort(port int, more string) string {
	return fmt.Sprintf("{ type = \"tcp\", port = %d, %s%s }", port, patient, more)
}

// If too few endpoints are up, all of them serve, or none does, or the backups do.
func TestTooFewEndpointsAreUp(t *testing.T) {
	n := newCheckedNode(t, "")
	open := checkedService{name: "open", vip: "10.96.5.1", check: judgedPort(7501, "")}
	closed := checkedService{name: "closed", vip: "10.96.5.2", check: judgedPort(7502, ", onAllDown = \"closed\"")}
	backup := checkedService{name: "backup", vip: "10.96.5.3", check: judgedPort(7503, ""),
		endpoints: `["10.2.1.10", "10.2.2.10", { address = "10.2.3.10", backup = true }]`}
	few := checkedService{name: "few", vip: "10.96.5.4", check: judgedPort(7504, ", minHealthy = 2")}
	half := checkedService{name: "half", vip: "10.96.5.5", check: judgedPort(7504, ", minHealthy = \"50%\"")}
	services := []checkedService{open, closed, backup, few, half}
	ports := map[string][]*lab.Port{}
	for i, s := range []checkedService{open, closed, backup, few} {
		ports[s.name] = n.openPorts(t, 7501+i, lines)
	}
	n.start(t, textOf(services))
	asks := func(s checkedService, backends ...string) {
		t.Helper()
		n.wantOnly(t, s.front(), 9, (*lab.Conn).Ask, backends...)
	}
	fail := func(s checkedService, pods ...int) {
		t.Helper()
		for _, pod := range pods {
			must(t, ports[s.name][pod-1].Close())
		}
	}
	asks(backup, "pod1", "pod2")

	// One of each goes down, and the first backup.
	fail(few, 1)
	fail(backup, 1, 3)
	n.becomes(t, patience, false, few.real(1), half.real(1), backup.real(1))
	asks(few, "pod2", "pod3")
	asks(backup, "pod2")
	n.says(t, 0, "status few")

	// Now too few are up.
	must(t, ports["backup"][2].Open())
	fail(few, 2)
	fail(backup, 2)
	fail(open, 1, 2, 3)
	fail(closed, 1, 2, 3)
	n.becomes(t, patience, true, backup.real(3), few.real(1), half.real(1))
	n.becomes(t, patience, false, closed.real(1), closed.real(2), closed.real(3), backup.real(2))
	n.eventually(t, patience, "status open", "panic")
	n.eventually(t, patience, "status few", "panic")
	n.becomes(t, patience, true, open.real(1), open.real(2), open.real(3), few.real(2), few.real(3), half.real(2), half.real(3))
	asks(open, "pod1", "pod2", "pod3")
	if out, code, err := n.Command("explain", "open"); err != nil || code != 7 || !strings.Contains(out, ": served by backends that are all down: ") {
		t.Errorf("explain: exit code %d, %v:\n%s", code, err, out)
	}
	asks(few, "pod1", "pod2", "pod3")
	asks(half, "pod1", "pod2", "pod3")
	asks(backup, "pod3")
	wantFrom(t, n.Client, closed.front().String(), "")
	n.says(t, 7, "status open", "panic")
	n.says(t, 7, "status few", "panic")
	n.says(t, 0, "status backup")
	n.says(t, 7, "status")
	n.eventually(t, patience, "events", "panic ", "backups ", "allDown ")

	for _, list := range ports {
		for _, p := range list {
			must(t, p.Open())
		}
	}
	n.becomes(t, patience, true, closed.real(1), closed.real(2), closed.real(3), backup.real(1), backup.real(2))
	n.becomes(t, patience, false, backup.real(3))
	n.eventually(t, patience, "events", "panicOver ", "enoughUp ")
	asks(closed, "pod1", "pod2", "pod3")
	asks(backup, "pod1", "pod2")
	must(t, lab.Eventually(patience, func() error {
		if out, code := n.asks(t, "status"); code != 0 {
			return fmt.Errorf("exit code %d\n%s", code, out)
		}
		return nil
	}))
}

// An endpoint that comes up gets its share little by little: under wrr the shares of
// connections are those of the weights at the time, within a tenth.
func TestSlowStart(t *testing.T) {
	const takes = 16 * time.Second
	n := newCheckedNode(t, "")
	s := checkedService{name: "slow", vip: "10.96.6.1", check: judgedPort(7601, fmt.Sprintf(", slowStart = %q", takes)), more: `scheduler = "wrr"`}
	ports := n.openPorts(t, 7601, lines)
	n.start(t, s.text())
	n.wantOnly(t, s.front(), 9, (*lab.Conn).Ask, "pod1", "pod2", "pod3") // not slowly after a start
	must(t, ports[0].Close())
	n.becomes(t, patience, false, s.real(1))
	must(t, ports[0].Open())
	begin := n.becomes(t, patience, true, s.real(1))
	w := n.watch(t)

	const quarters = 4
	var got, want [quarters]float64
	tick := time.NewTicker(8 * time.Millisecond)
	defer tick.Stop()
	for {
		at := time.Since(begin)
		if at >= takes {
			break
		}
		a, err := n.askNew(s.front(), (*lab.Conn).Ask)
		must(t, err)
		quarter := int(at * quarters / takes)
		if a.Backend == "pod1" {
			got[quarter]++
		}
		// The newcomer's weight is a number of sixteenths, of one; the others' are one.
		part := float64(min(at*16/takes+1, 16)) / 16
		want[quarter] += part / (part + 2)
		<-tick.C
	}
	for i := range got {
		t.Logf("quarter %d: %v connections, by the weights %.1f", i+1, got[i], want[i])
		// wrr begins its cycle again at each of a quarter's four weights: that is up to one connection each.
		if w.freely() && (got[i] < want[i]*0.9-4 || got[i] > want[i]*1.1+4) {
			t.Errorf("quarter %d: %v connections for the newcomer, want %.1f within a tenth", i+1, got[i], want[i])
		}
	}
	w.end()
	n.becomes(t, patience, true, s.real(1))
	n.getsWeight(t, s.real(1), n.weightOf(t, s.real(2)))
	n.wantOnly(t, s.front(), 9, (*lab.Conn).Ask, "pod1", "pod2", "pod3")
}

// Connections of an endpoint that goes down go on, or end if onDown is "cut". A UDP
// client, and a client with affinity, moves to another endpoint in either case.
func TestConnectionsOfADeadEndpoint(t *testing.T) {
	n := newCheckedNode(t, "")
	services := []checkedService{
		{name: "drains", vip: "10.96.7.1", check: judgedPort(7701, "")},
		{name: "cut", vip: "10.96.7.2", check: judgedPort(7701, ", onDown = \"cut\"")},
		{name: "datagrams", vip: "10.96.7.3", protocol: "UDP", check: judgedPort(7701, "")},
		{name: "asked-by-dns", vip: "10.96.7.4", protocol: "UDP", check: "{ type = \"dns\", port = 7702, " + patient + " }"},
	}
	drains, cut := services[0], services[1]
	sticky := checkedService{name: "sticky", vip: "10.96.7.5", check: judgedPort(7701, ""), more: `sessionAffinity = "ClientIP"`}
	clients := manyClients(t, n, 3)
	ports := n.openPorts(t, 7701, lines)
	var names []*lab.Port
	for _, b := range n.Backends {
		p, err := b.OpenDatagrams(7702, lab.DNS(0))
		must(t, err)
		names = append(names, p)
	}
	n.start(t, textOf(services)+sticky.text())
	stuck := 0
	for _, from := range clients {
		if askFrom(t, n.Client, from, sticky.front().String()) == "pod1" {
			stuck++
		}
	}
	if stuck != 1 {
		t.Errorf("of three clients %d are with pod1", stuck)
	}
	goesOn := n.hold(t, drains.front(), "pod1", (*lab.Conn).Ask)
	ends := n.hold(t, cut.front(), "pod1", (*lab.Conn).Ask)
	others := newLoad(t)
	for _, s := range services[:2] {
		for _, name := range []string{"pod2", "pod3"} {
			c := n.hold(t, s.front(), name, (*lab.Conn).Ask)
			others.add(s.name+", the open connection to "+name, func() error { _, err := c.Ask(); return err })
		}
	}
	streams := map[string]*lab.Stream{}
	for _, s := range services[2:] {
		for i := range 3 { // round robin: one is with pod1
			c, err := n.Client.Dial("udp", s.front())
			must(t, err)
			streams[fmt.Sprint(s.name, " ", i)] = c.Stream(pace)
		}
	}
	must(t, lab.Eventually(patience, func() error { return anyWith(streams, "pod1", len(services)-2) }))

	must(t, ports[0].Close())
	must(t, names[0].Close())
	n.becomes(t, patience, false, realsOf(services, 1)...)
	wantStill(t, goesOn, "pod1")
	var timeout net.Error
	if a, err := ends.Ask(); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection to the endpoint that is cut: %v, %v; want an end", a, err)
	}
	must(t, lab.Eventually(patience, func() error { return anyWith(streams, "pod1", 0) }))
	const most = 12 // a sync takes up to a second on a busy machine
	for name, tally := range end(streams) {
		if tally.Lost() > most || tally.Refused > 0 {
			t.Errorf("%s: of %d datagrams %d were lost and %d refused", name, tally.Sent, tally.Lost(), tally.Refused)
		}
	}
	wantStill(t, goesOn, "pod1")
	for _, from := range clients {
		if is := askFrom(t, n.Client, from, sticky.front().String()); is == "pod1" {
			t.Errorf("%s is still held to pod1", from)
		}
	}
	n.wantOnly(t, cut.front(), 9, (*lab.Conn).Ask, "pod2", "pod3")

	must(t, ports[0].Open())
	must(t, names[0].Open())
	n.becomes(t, patience, true, realsOf(services, 1)...)
	wantStill(t, goesOn, "pod1")
	others.goOn(t, 10)
	others.wantServed(t)
}

// anyWith wants so many streams to be answered by a backend last.
func anyWith(streams map[string]*lab.Stream, backend string, want int) error {
	var with []string
	for name, s := range streams {
		if s.Tally().Last() == backend {
			with = append(with, name)
		}
	}
	if len(with) != want {
		return fmt.Errorf("with %s are %s, want %d", backend, strings.Join(with, ", "), want)
	}
	return nil
}
