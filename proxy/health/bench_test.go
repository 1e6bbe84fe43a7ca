package health

import (
	"strconv"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// large is a table of 5,000 services with 5 endpoints each, all of which are up.
func large() (sources.Table, []Target, Verdicts) {
	check := standard()
	check.Probe.Type = sources.CheckTCP
	t := sized(5000, 5, &check)
	targets := Targets(t)
	v := Verdicts{Of: map[Key]Verdict{}}
	for _, x := range targets {
		v.Of[x.Key] = Verdict{State: State{Phase: Up}}
	}
	return t, targets, v
}

// flip sets the state of one target.
func flip(v Verdicts, k Key, p Phase) { v.Of[k] = Verdict{State: State{Phase: p}} }

// BenchmarkOverlay is the whole of it, with one endpoint down.
func BenchmarkOverlay(b *testing.B) {
	t, targets, v := large()
	flip(v, targets[12_500].Key, Down)
	b.ReportAllocs()
	for b.Loop() {
		Overlay(t, Known{Verdicts: v}, epoch)
	}
}

// BenchmarkOverlayRange is one service with a range of 1,000 ports and 50 endpoints.
func BenchmarkOverlayRange(b *testing.B) {
	check := standard()
	check.Probe.Type = sources.CheckTCP
	t := sized(1, 50, &check)
	s := t.Services.At(0)
	s.Ports = nil
	for i := range s.Endpoints {
		s.Endpoints[i].Ports = nil
	}
	for port := uint16(10_000); port < 11_000; port++ {
		name := strconv.Itoa(int(port))
		s.Ports = append(s.Ports, sources.Port{Name: name, Protocol: sources.TCP, Port: port})
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			e.Ports = append(e.Ports, sources.EndpointPort{Name: name, Protocol: sources.TCP, Port: port})
		}
	}
	v := Verdicts{Of: map[Key]Verdict{}}
	for _, x := range Targets(t) {
		v.Of[x.Key] = Verdict{State: State{Phase: Up}}
	}
	b.ReportAllocs()
	for b.Loop() {
		Overlay(t, Known{Verdicts: v}, epoch)
	}
}

// BenchmarkCacheOneChange is one endpoint that goes down or comes up.
func BenchmarkCacheOneChange(b *testing.B) {
	t, targets, v := large()
	var c Cache
	c.Overlay(t, Known{Verdicts: v}, nil, epoch)
	changed := []Key{targets[12_500].Key}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		flip(v, changed[0], [2]Phase{Down, Up}[n%2])
		c.Overlay(t, Known{Verdicts: v}, changed, epoch)
		n++
	}
}

// BenchmarkCompareOneChange is what the loop then asks of the two tables.
func BenchmarkCompareOneChange(b *testing.B) {
	t, targets, v := large()
	up := Overlay(t, Known{Verdicts: v}, epoch)
	flip(v, targets[12_500].Key, Down)
	down := Overlay(t, Known{Verdicts: v}, epoch)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(sources.Compare(up.Table, down.Table).Changes); n != 1 {
			b.Fatal(n)
		}
	}
}

// BenchmarkTargets is the list for the checker, after a change of the table.
func BenchmarkTargets(b *testing.B) {
	t, _, _ := large()
	b.ReportAllocs()
	for b.Loop() {
		Targets(t)
	}
}

// BenchmarkStep is one result.
func BenchmarkStep(b *testing.B) {
	check := standard()
	p, s, r := PaceOf(&check), State{}, Result{Good: true, At: epoch}
	b.ReportAllocs()
	for b.Loop() {
		s = Step(s, r, p)
	}
}

// TestQuietCosts counts allocations where nothing changes, and where one endpoint does.
func TestQuietCosts(t *testing.T) {
	table, targets, v := large()
	k := Known{Verdicts: v}
	if n := testing.AllocsPerRun(3, func() { Overlay(table, k, epoch) }); n > 20 {
		t.Errorf("%.0f allocations for a table in which nothing is down, want 20 at most", n)
	}
	var c Cache
	c.Overlay(table, k, nil, epoch)
	if n := testing.AllocsPerRun(3, func() { c.Overlay(table, k, nil, epoch) }); n > 2 {
		t.Errorf("%.0f allocations for nothing new, want 2 at most", n)
	}
	changed, phase := []Key{targets[7].Key}, Down
	if n := testing.AllocsPerRun(4, func() {
		flip(v, changed[0], phase)
		phase = Up + Down - phase
		c.Overlay(table, k, changed, epoch)
	}); n > 20 {
		t.Errorf("%.0f allocations for one endpoint, want 20 at most", n)
	}
}
