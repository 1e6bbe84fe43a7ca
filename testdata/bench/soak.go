package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// soakRounds are ten minutes of one change a second, compressed: a round begins when the last one is served.
const soakRounds = 600

// soakEvery is which service each round changes: all endpoints of 1 % of them.
const soakEvery = 100

var soakSize = size{1000, 10}

func soakRow(what string) string {
	return fmt.Sprintf("1 %% of %v changed again and again: %s", soakSize, what)
}

// soaked is the table of a round.
func soaked(t sources.Table, round int) sources.Table {
	t.Services = sources.ServicesOf(t.Services.Slice()...)
	for i := round % soakEvery; i < t.Services.Len(); i += soakEvery {
		s := t.Services.At(i)
		s.Endpoints = slices.Clone(s.Endpoints)
		for j := range s.Endpoints {
			s.Endpoints[j].Weight = uint32(2 + round/soakEvery%2)
		}
	}
	return t
}

// soak changes a file many times, and compares what the program takes at the end with what it took at a sixth of the way.
func (b *bench) soak(p *pass) error {
	if p.counting {
		return nil // debounce and pace decide how many calls there are
	}
	proxy, ready, done, err := p.prepare(b.binary)
	if err != nil {
		return err
	}
	defer done()
	return p.soak(proxy, ready)
}

// soakIn is soak in another mode than ipvs.
func (b *bench) soakIn(p *pass, mode string) error {
	proxy, ready, done, err := p.prepare(b.binary)
	if err != nil {
		return err
	}
	defer done()
	proxy.Mode = mode
	if err := proxy.Configure(programConfig + "\niptables.minSyncPeriod = \"1ms\""); err != nil { // waiting, as the debounce
		return err
	}
	return p.soak(proxy, ready)
}

func (p *pass) soak(proxy *lab.Proxy, ready readiness) error {
	rounds := soakRounds
	if p.bench.rounds > 0 {
		rounds = p.bench.rounds
	}
	t := table(soakSize, kernel.IPv4)
	if err := proxy.Serve(text(t)); err != nil {
		return err
	}
	if err := begin(proxy, ready); err != nil {
		return err
	}
	used := processorTime([]int{proxy.Pid()})
	for round := range rounds {
		t = soaked(t, round)
		content := text(t)
		start := time.Now()
		if err := save(proxy, content); err != nil {
			return fmt.Errorf("round %d: %w; its log ends:\n%s", round, err, proxy.Log.String())
		}
		p.took(soakRow("saved to served"), time.Since(start))
		if round == rounds/6 {
			if err := p.holdings(proxy, soakRow("after a sixth")); err != nil {
				return err
			}
		}
	}
	p.took(soakRow("processor time a round"), (processorTime([]int{proxy.Pid()})-used)/time.Duration(rounds))
	return p.holdings(proxy, soakRow("at the end"))
}

// holdings adds the rows of a program's memory and descriptors.
func (p *pass) holdings(proxy *lab.Proxy, row string) error {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", proxy.Pid()))
	if err != nil {
		return err
	}
	p.number(row+", descriptors", int64(len(files)), "descriptors")
	p.resident(row+", memory", statusField(proxy.Pid(), "RssAnon"))
	return nil
}

// soakGates: nothing grows with the number of changes.
func soakGates() []gate {
	at := func(what string) cell { return cell{row: soakRow(what), by: "svcproxy"} }
	return []gate{
		{what: soakRow("descriptors, of a sixth"), of: at("at the end, descriptors"), per: at("after a sixth, descriptors"), value: number, most: 1.05, unit: "x"},
		{what: soakRow("memory, of a sixth"), of: at("at the end, memory"), per: at("after a sixth, memory"), value: megabytes, most: 1.25, unit: "x"},
		{what: soakRow("saved to served"), of: at("saved to served"), value: millions, unit: " ms"},
	}
}
