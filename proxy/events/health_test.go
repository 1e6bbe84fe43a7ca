package events

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// checkedTable has services with this many endpoints each, all probed over TCP.
func checkedTable(services, endpoints int) sources.Table {
	check := sources.DefaultHealthCheck()
	check.Probe.Type = sources.CheckTCP
	var t sources.Table
	for i := range services {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP, HealthCheck: &check,
			Ports: []sources.Port{{Name: "http", Protocol: sources.TCP, Port: 80}},
		}
		for j := range endpoints {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr: netip.AddrFrom4([4]byte{10, byte(j), byte(i >> 8), byte(i)}), Weight: 1, Ready: true, Serving: true,
				Ports: []sources.EndpointPort{{Name: "http", Protocol: sources.TCP, Port: 8080}},
			})
		}
		t.Services = t.Services.Append(s)
	}
	return t
}

// follower is a Health with its targets, as the checker gives them results.
type follower struct {
	*Health
	table   sources.Table
	targets []health.Target
	board   health.Board
	log     bytes.Buffer
}

func follow(services, endpoints int) *follower {
	f := &follower{table: checkedTable(services, endpoints)}
	f.board.Believe = true
	f.targets = health.Targets(f.table)
	f.board.SetTargets(f.targets, nil, time.Now())
	f.Health = &Health{
		Ring: new(Ring), Log: slog.New(slog.NewTextHandler(&f.log, nil)), Table: func() sources.Table { return f.table },
		Users: func(keys ...health.Key) []string { return f.board.ServicesOf(f.table, keys...) },
	}
	return f
}

// result gives a result to a target as often as it takes to change its state.
func (f *follower) result(i int, reason string) {
	for range 3 {
		f.Noticed(f.board.Record(f.targets[i].Key, health.Result{Good: reason == "", Reason: reason, At: time.Now()}))
	}
}

func (f *follower) lines() []string {
	list, _, _ := f.Ring.After(0)
	var lines []string
	for _, e := range list {
		lines = append(lines, fmt.Sprintf("%s %s: %s", e.Kind, e.Text, e.names()))
	}
	return lines
}

func (f *follower) want(t *testing.T, want ...string) {
	t.Helper()
	if got, want := strings.Join(f.lines(), "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("events:\n%s\nwant:\n%s", got, want)
	}
}

// 25,000 endpoints that go down within a second are a few events, and each counts.
func TestAnOutageIsFewEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(5000, 5)
		for i := range f.targets {
			f.result(i, "")
		}
		f.want(t) // a first good result is no news
		for i := range f.targets {
			f.result(i, "refused")
			if i%2500 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(2 * foldPause)
		lines := f.lines()
		if len(lines) > 10 {
			t.Errorf("%d events:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		if want := "endpointDown 10.0.0.0:8080 tcp refused (3 of 3, 0s): s00000"; lines[0] != want {
			t.Errorf("%s\nwant %s", lines[0], want)
		}
		count := 0
		for _, line := range lines {
			var n int
			if fmt.Sscanf(line, "endpointDown %d endpoints", &n); n == 0 {
				n = 1
			}
			count += n
		}
		if down := f.board.Verdicts(); count+held(down) < len(f.targets) {
			t.Errorf("%d endpoints in the events of %d", count, len(f.targets))
		}
		if logged := strings.Count(f.log.String(), "\n"); logged != len(lines) || !strings.Contains(f.log.String(), `level=WARN msg=health event=endpointDown text="10.0.0.0:8080 tcp refused (3 of 3, 0s)" services=s00000`) {
			t.Errorf("%d lines in the log:\n%.300s", logged, &f.log)
		}
	})
}

func held(v health.Verdicts) (n int) {
	for _, x := range v.Of {
		if x.Held {
			n++
		}
	}
	return n
}

// While an endpoint flaps, its changes are no events.
func TestFlappingIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(1, 2)
		f.board.Believe = true
		f.result(0, "")
		for i := range 20 {
			time.Sleep(2 * foldPause)
			for range 12 {
				f.result(0, []string{"refused", ""}[i%2])
			}
		}
		time.Sleep(10 * time.Minute)
		f.result(0, "")
		time.Sleep(2 * foldPause)
		lines := f.lines()
		last := len(lines) - 1
		if last > 7 || !strings.HasPrefix(lines[last-1], "flapping 10.0.0.0:8080 tcp changes too often") || lines[last] != "calm 10.0.0.0:8080 tcp stays up: s00000" {
			t.Errorf("events:\n%s", strings.Join(lines, "\n"))
		}
	})
}

// Agents change their shares all the time. Only what takes an endpoint out is news.
func TestAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(1, 1)
		agent := func(percent uint16, ask health.Ask) {
			f.Noticed(f.board.Record(f.targets[0].Key, health.Result{Good: true, At: time.Now(), Percent: percent, Ask: ask}))
			time.Sleep(2 * foldPause)
		}
		agent(0, 0)
		agent(75, 0)
		agent(50, health.AskDrain)
		agent(40, health.AskDrain)
		agent(40, 0)
		f.want(t, "agentAsks 10.0.0.0:8080 tcp asks for drain: s00000", "agentAsks 10.0.0.0:8080 tcp asks for connections again: s00000")

		f = follow(1, 1) // the first answer
		agent(0, health.AskMaint)
		agent(0, 0)
		f.want(t, "agentAsks 10.0.0.0:8080 tcp asks for maint: s00000", "agentAsks 10.0.0.0:8080 tcp asks for connections again: s00000")
	})
}

// Each group that gets another mode is an event, and many are one.
func TestModesOfGroups(t *testing.T) {
	f := follow(10, 2)
	unusual := func(m health.Mode, services ...int) (list []health.Unusual) {
		for _, i := range services {
			list = append(list, health.Unusual{Service: i, Group: health.Group{Port: "http", Protocol: sources.TCP, Mode: m, Of: 2}})
		}
		return list
	}
	f.Synced(f.table, nil)
	f.Synced(f.table, unusual(health.FirstResult, 1))
	f.Synced(f.table, unusual(health.FailOpen, 1))
	f.Synced(f.table, unusual(health.BelowLimit, 1)) // still a panic
	f.Synced(f.table, unusual(health.OnBackups, 1))
	f.Synced(f.table, unusual(health.FailClosed, 2))
	f.Synced(f.table, unusual(health.FailOpen, 3, 4, 5, 6))
	f.Synced(f.table, nil)
	f.want(t,
		"panic port http: 0 of 2 up, fail open: s00001",
		"backups port http: 0 of 2 up, on backups: s00001",
		"panicOver port http: 0 of 2 up, on backups: s00001",
		"allDown port http: 0 of 2 up, fail closed: s00002",
		"enoughUp port http: as usual: s00001",
		"enoughUp port http: as usual: s00002",
		"panic 4 ports of 4 services: s00003, s00004, s00005, s00006",
		"panicOver 4 ports of 4 services: s00003, s00004, s00005, s00006")
}

// What concerns all targets, and orders, are events at once.
func TestEventsOfTheNode(t *testing.T) {
	f := follow(2, 1)
	now := time.Unix(1700000000, 0)
	target, err := health.ParseSelector("10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	drain := health.Override{Selector: target, Verb: health.Drain, Made: now, By: "root", Why: "kernel upgrade"}
	f.Noticed([]health.Event{
		{Kind: health.WentBlind, At: now, Reason: "too many open files"}, {Kind: health.SeesAgain, At: now},
		{Kind: health.MassFailure, At: now, Down: 7, Of: 12}, {Kind: health.MassOver, At: now},
		{Kind: health.Ordered, At: now, Order: drain},
		{Kind: health.TakenBack, At: now, Order: drain, Author: health.Author{By: "ann", UID: 1000}},
		{Kind: health.OrderOver, At: now, Order: drain, Reason: "its time is over"},
	})
	f.want(t,
		"checkerBlind no probe tells anything, so the last states count: too many open files: ",
		"checkerSees probes tell something again: ",
		"massFailure 7 of 12 targets went down at once: this node may have lost its network: ",
		"massFailureOver the present states count: ",
		`order drain 10.0.0.1 by root (uid 0): "kernel upgrade": s00001`,
		"orderTakenBack drain 10.0.0.1 by ann (uid 1000): s00001",
		"orderOver drain 10.0.0.1: its time is over: s00001")
	for _, logged := range []string{"event=checkerBlind", "event=order ", "event=orderTakenBack", "event=orderOver"} {
		if !strings.Contains(f.log.String(), logged) {
			t.Errorf("%s is not in the log:\n%s", logged, f.log.String())
		}
	}
}
