package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/sources"
)

// churnSizes are the tables whose files change once a second: all endpoints of 1 %, as in soak.
var churnSizes = []size{soakSize, {5000, 5}}

// churnRounds is how often. keepalived takes longer than a second for a large table.
func churnRounds(s size) int {
	if s == soakSize {
		return 60
	}
	return 20
}

// idleRow is of a table in which nothing changes.
func idleRow(s size) string { return fmt.Sprintf("%v, nothing changes: processor time a second", s) }

func churnRow(s size, what string) string {
	return fmt.Sprintf("1 %% of %v changed each second: %s", s, what)
}

// churnScenarios are those of all sizes.
func churnScenarios() (all []scenario) {
	for _, s := range churnSizes {
		all = append(all,
			scenario{name: fmt.Sprint("churn ", s), by: "svcproxy", run: func(b *bench, p *pass) error { return b.churn(p, s) }, outside: true, only: kernel.IPv4, clock: "wall"},
			scenario{name: fmt.Sprint("churn ", s), by: "keepalived", run: func(b *bench, p *pass) error { return b.churnKeepalived(p, s) }, outside: true, only: kernel.IPv4, clock: "wall"},
		)
	}
	return all
}

// churn changes svcproxy's file. All is as by default, the debounce too.
func (b *bench) churn(p *pass, s size) error {
	if p.counting {
		return nil // as in soak
	}
	proxy, ready, done, err := p.prepare(b.binary)
	if err != nil {
		return err
	}
	defer done()
	t := table(s, kernel.IPv4)
	err = errors.Join(proxy.Configure("ipvs.scheduler = \"wrr\""), proxy.Serve(text(t)))
	if err == nil {
		err = begin(proxy, ready)
	}
	if err != nil {
		return err
	}
	return p.churn(s, t, func(t sources.Table) error { return proxy.Serve(text(t)) }, func() []int { return []int{proxy.Pid()} })
}

// churnKeepalived does the same with keepalived, which reads its file when it is told to.
func (b *bench) churnKeepalived(p *pass, s size) error {
	if p.counting {
		return nil
	}
	dir, err := os.MkdirTemp("", "bench-keepalived-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := table(s, kernel.IPv4)
	k := &keepalived{dir: dir}
	if err := k.configure(keepalivedConf(t)); err != nil {
		return err
	}
	defer k.stop()
	if err := k.start(p.node); err != nil {
		return err
	}
	if err := p.untilServed(t, 1); err != nil {
		return fmt.Errorf("%w; keepalived says:\n%s", err, k.out.String())
	}
	pid := k.cmd.Process.Pid
	return p.churn(s, t, func(t sources.Table) error {
		if err := k.configure(keepalivedConf(t)); err != nil {
			return err
		}
		return k.cmd.Process.Signal(unix.SIGHUP)
	}, func() []int { return append(children(pid), pid) })
}

// churn looks at the program while nothing changes, for as many seconds. Then it saves a table each second, or when the last one is served if
// that takes longer.
func (p *pass) churn(s size, t sources.Table, save func(sources.Table) error, pids func() []int) error {
	rounds := churnRounds(s)
	if p.bench.rounds > 0 {
		rounds = min(rounds, p.bench.rounds)
	}
	settle()
	since := p.uses(pids)
	time.Sleep(time.Duration(rounds) * time.Second)
	since(idleRow(s))
	since = p.uses(pids)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for round := range rounds {
		<-second.C
		next := soaked(t, round)
		start := time.Now()
		if err := save(next); err != nil {
			return err
		}
		changed := next
		changed.Services = sources.ServicesOf(next.Services.Slice()[:next.Services.Len()-soakEvery+1+round%soakEvery]...)
		if err := p.untilServed(changed, 2); err != nil {
			return err
		}
		p.took(churnRow(s, "saved to served"), time.Since(start))
		t = next
	}
	since(churnRow(s, "processor time a second"))
	return nil
}

// uses returns a function that adds the row of what processes have used from now on.
func (p *pass) uses(pids func() []int) (since func(row string)) {
	begin, used := time.Now(), processorTime(pids())
	return func(row string) {
		took := time.Since(begin)
		p.took(row, time.Duration(float64(processorTime(pids())-used)/took.Seconds()))
	}
}

// untilServed waits until the last endpoint of a table has a weight.
func (p *pass) untilServed(t sources.Table, weight uint32) error {
	table, err := ipvs.Open(nil)
	if err != nil {
		return err
	}
	defer table.Close()
	last := *t.Services.At(t.Services.Len() - 1)
	return untilWeight(table, last, len(last.Endpoints)-1, weight)
}

// churnGates: a change of many is served sooner than by keepalived, and costs less.
func churnGates() (all []gate) {
	for _, s := range churnSizes {
		for _, what := range []string{"saved to served", "processor time a second"} {
			row := churnRow(s, what)
			all = append(all, gate{what: row + ", keepalived", of: cell{row: row, by: "keepalived"}, per: cell{row: row, by: "svcproxy"}, value: millions, least: 1.5, unit: "x"})
		}
	}
	return all
}
