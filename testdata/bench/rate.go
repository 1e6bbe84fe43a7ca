package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// How many clients open connections at once, how many each opens in one round, and how
// many rounds there are. A round is long against the 10 ms in which the kernel counts
// processor time.
const (
	rateClients     = 8
	rateConnections = 100
	rateRounds      = 5
)

func rateRow(services int) string {
	return fmt.Sprintf("connections a second, of %d services", services)
}

func cpuRow(services int) string {
	return fmt.Sprintf("processor time a connection, of %d services", services)
}

// rates measures how many connections a second a way takes from many clients, and what
// processor time of the whole machine each costs: that of clients and backend counts too,
// and is the same for all ways.
func (p *pass) rates(ways []way, rounds int) error {
	for range rounds {
		for _, w := range ways {
			if err := p.rate(w); err != nil {
				return fmt.Errorf("%s: %w", w.by, err)
			}
		}
		slices.Reverse(ways)
	}
	return nil
}

func (p *pass) rate(w way) error {
	errs := make([]error, rateClients)
	var clients sync.WaitGroup
	before, err := busyTime()
	if err != nil {
		return err
	}
	start := time.Now()
	for i := range rateClients {
		clients.Go(func() {
			errs[i] = w.lab.Client.Do(func() error {
				for range rateConnections {
					if err := ask(w.to, 'c', 1); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	clients.Wait()
	took := time.Since(start)
	after, err := busyTime()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	const n = rateClients * rateConnections
	rate, cpu := p.sample(rateRow(w.services), w.by), p.sample(cpuRow(w.services), w.by)
	rate.Number, rate.Unit = int64(n/took.Seconds()), "a second"
	cpu.Nanos = (after - before).Nanoseconds() / n
	p.samples = append(p.samples, rate, cpu)
	return nil
}

// busyTime is the time that all processors worked, by /proc/stat, which counts in 10 ms.
func busyTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var name string
	var user, nice, system, idle, wait, irq, softirq int64
	if _, err := fmt.Sscan(line, &name, &user, &nice, &system, &idle, &wait, &irq, &softirq); err != nil {
		return 0, fmt.Errorf("/proc/stat: %q: %w", line, err)
	}
	return time.Duration(user+nice+system+irq+softirq) * 10 * time.Millisecond, nil
}
