package status

import (
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// A table without health checks and orders costs what it costs without a checker.
func TestHealthThatIsNotUsedCostsNothing(t *testing.T) {
	in := big(100, 10)
	allocs := func() float64 { return testing.AllocsPerRun(5, func() { New(in) }) }
	without := allocs()
	in.Health = &health.View{Now: in.Now, Table: in.Snapshot.Table}
	if with := allocs(); with > without*1.02 { // the runtime allocates, too, the more with the race detector
		t.Errorf("%v allocations, %v without a checker", with, without)
	}
	if st := New(in); st.Health != nil || st.Services[0].Health != nil || st.Services[0].Endpoints[0].Health != nil {
		t.Errorf("%+v", st.Health)
	}
}

// checkedInput is big with a health check for each endpoint.
func checkedInput(services, endpoints int) Input {
	in := big(services, endpoints)
	table := in.Snapshot.Table
	check := sources.DefaultHealthCheck()
	check.Probe.Type = sources.CheckTCP
	view := health.View{Now: in.Now, Known: health.Known{Verdicts: health.Verdicts{Of: map[health.Key]health.Verdict{}}}}
	view.Table.Services = sources.ServicesOf(table.Services.Slice()...)
	for _, s := range view.Table.Services.All() {
		s.HealthCheck = &check
	}
	for _, target := range health.Targets(view.Table) {
		s := health.Step(health.State{}, health.Result{Good: true, At: in.Now.Add(-time.Hour)}, health.PaceOf(&check))
		view.Known.Verdicts.Of[target.Key] = health.Verdict{State: s}
	}
	in.Health = &view
	return in
}

func BenchmarkNewWithHealth(b *testing.B) {
	in := checkedInput(5000, 5)
	b.ReportAllocs()
	for b.Loop() {
		New(in)
	}
}

// Each endpoint of a big table has its health.
func TestHealthOfEveryEndpoint(t *testing.T) {
	st := New(checkedInput(300, 3))
	if st.Health == nil || st.Health.Targets != 900 || st.Health.States["up"] != 900 {
		t.Fatalf("%+v", st.Health)
	}
	for _, s := range st.Services {
		if s.Health == nil || s.Health.Checked != 3 || s.Health.Up != 3 {
			t.Fatalf("%s: %+v", s.Name, s.Health)
		}
		for _, e := range s.Endpoints {
			if e.Health == nil || e.Health.Text != "up 1h" {
				t.Fatalf("%s %s: %+v", s.Name, e.Address, e.Health)
			}
		}
	}
}

// An endpoint that answers no client is down where healthCheck.passive asks for that, whatever its probes say.
func TestSilentIsDown(t *testing.T) {
	in := checkedInput(1, 3)
	s := in.Health.Table.Services.Slice()[0]
	s.HealthCheck.Passive = true
	e := s.Endpoints[1]
	at := netip.AddrPortFrom(e.Addr, e.Ports[0].Port)
	in.Health.Known.Silent = map[netip.AddrPort]bool{at: true}
	st := New(in).Services[0]
	if st.Health.Up != 2 || st.Health.Down != 1 {
		t.Errorf("%+v", st.Health)
	}
	for _, e := range st.Endpoints {
		if down := e.Address == at; down != e.Health.Down() || down && e.Health.Reason != "it does not answer its clients" {
			t.Errorf("%+v", e.Health)
		}
	}
}
