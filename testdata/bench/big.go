package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
)

// bigService is the endpoints of one service whose list the kernel walks for each real server added. mh takes at most 4,093.
const bigService = 4000

// bigRounds is how often each load is timed, in turns.
const bigRounds = 3

var bigSchedulers = []string{"rr", "wrr", "mh"}

func bigRow(scheduler string) string {
	return fmt.Sprintf("load one service of %d, %s", bigService, scheduler)
}

// big loads IPVS with one big service, by svcproxy and by ipvsadm, each on a node of its own: real servers that were
// removed slow down the next ones.
func (b *bench) big(p *pass) error {
	if p.counting {
		return nil // it would take as long as the measurement
	}
	state := wanted(table(size{1, bigService}, p.family), kernel.Node{})
	for range bigRounds {
		for _, scheduler := range bigSchedulers {
			var ops []kernel.Op
			for _, v := range state.Virtuals {
				v.Scheduler = scheduler
				ops = append(ops, kernel.Op{Verb: kernel.Add, Object: v})
			}
			for _, r := range state.Reals.All() {
				ops = append(ops, kernel.Op{Verb: kernel.Add, Object: r})
			}
			if err := errors.Join(p.bigBySvcproxy(bigRow(scheduler), ops), p.bigByIpvsadm(bigRow(scheduler), ops)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pass) bigByIpvsadm(row string, ops []kernel.Op) error {
	var lines strings.Builder
	for _, o := range ops {
		fmt.Fprintln(&lines, strings.TrimPrefix(o.String(), "+ "))
	}
	return p.onNewNode(func() error {
		return p.lapBy(row, "ipvsadm", func() error {
			_, err := p.node.Feed(lines.String(), "ipvsadm", "-R")
			return err
		})
	})
}

func (p *pass) bigBySvcproxy(row string, ops []kernel.Op) error {
	return p.onNewNode(func() error {
		t, err := ipvs.Open(p.wire.dialer())
		if err != nil {
			return err
		}
		defer t.Close()
		return p.lapBy(row, "svcproxy", func() error {
			if errs := t.Apply(ops); errs != nil {
				return kernel.Failures(ops, errs)
			}
			return nil
		})
	})
}

// bigGates are what the order of the messages saves of what schedulers cost.
func bigGates() []gate {
	var all []gate
	for _, scheduler := range bigSchedulers[1:] {
		at := func(by string) cell { return cell{row: bigRow(scheduler), by: by} }
		all = append(all, gate{what: bigRow(scheduler) + ", by ipvsadm", of: at("ipvsadm"), per: at("svcproxy"), value: instructions, least: 1.5, unit: "x"})
	}
	return all
}
