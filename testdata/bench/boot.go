package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// bootSize is a table whose start takes less than loading the modules.
var bootSize = size{100, 10}

// bootRounds is how often each start is measured, in turns.
const bootRounds = 3

// The rows of a start. Files have been read before in all of them. After a boot, the disk comes on top.
var (
	coldRow = fmt.Sprintf("start of %v, modules loaded on demand", bootSize)
	bootRow = fmt.Sprintf("start of %v, by the unit after a boot", bootSize)
	warmRow = fmt.Sprintf("start of %v, modules loaded before", bootSize)
)

// The rows of what a start cannot do without, run alone: the same programs as svcproxy runs, with the same rules.
var (
	rulesRow   = fmt.Sprintf("of a start of %v: the programs of iptables alone", bootSize)
	modulesRow = fmt.Sprintf("of a start of %v: modprobe alone", bootSize)
)

// boots measures a start to the last real server without the kernel's modules and with them. After a boot,
// modules-load.d has loaded most of them, and the unit's modprobe loads the others, which counts.
func (b *bench) boots(p *pass) error {
	if p.counting {
		return nil
	}
	t := table(bootSize, kernel.IPv4)
	nothing := func() error { return nil }
	atBoot := func() error { return modprobe(machine.AtBoot) }
	byUnit := func() error { return modprobe(slices.Concat(machine.Needed("ipvs", false), machine.BackEnds)) }
	for range bootRounds {
		for _, c := range []struct {
			row, by      string
			before, with func() error // the start, and measured with it
			start        func(*pass, string, sources.Table, func() error) error
		}{
			{coldRow, "svcproxy", nothing, nothing, bootSvcproxy},
			{modulesRow, "modprobe", nothing, byUnit, bootModules},
			{coldRow, "keepalived", nothing, nothing, bootKeepalived},
			{coldRow, "haproxy", nothing, nothing, bootHAProxy},
			{bootRow, "svcproxy", atBoot, byUnit, bootSvcproxy},
			{warmRow, "svcproxy", byUnit, nothing, bootSvcproxy},
			{warmRow, "keepalived", byUnit, nothing, bootKeepalived},
			{warmRow, "haproxy", byUnit, nothing, bootHAProxy},
		} {
			p.by = c.by
			err := errors.Join(unload(), c.before())
			if err == nil {
				err = p.onNewNode(func() error { return c.start(p, c.row, t, c.with) })
			}
			if err != nil {
				return fmt.Errorf("%s by %s: %w", c.row, c.by, err)
			}
		}
	}
	// The limit went with its module. It can be set in the first network namespace only, where new goroutines are.
	done := make(chan error)
	go func() { done <- trackMore() }()
	return <-done
}

// modprobe loads modules as the unit does. It fails if the kernel lacks a module of one back end of iptables, which no
// start needs.
func modprobe(names []string) error {
	var exit *exec.ExitError
	if err := exec.Command("modprobe", append([]string{"-qa"}, names...)...).Run(); !errors.As(err, &exit) {
		return err
	}
	return nil
}

// onNewNode runs f on a node of its own, because rules of a node keep modules loaded.
func (p *pass) onNewNode(f func() error) error {
	l, err := lab.NewNode()
	if err != nil {
		return err
	}
	was := p.node
	p.node = l.Node
	err = l.Node.Do(f)
	p.node = was
	return errors.Join(err, l.Close())
}

func bootSvcproxy(p *pass, row string, t sources.Table, with func() error) error {
	proxy, ready, done, err := p.prepare(p.bench.binary)
	if err != nil {
		return err
	}
	defer done()
	if err := proxy.Serve(text(t)); err != nil {
		return err
	}
	err = p.lap(row, func() error {
		if err := errors.Join(with(), proxy.Start()); err != nil {
			return err
		}
		return ready.wait()
	})
	if err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, proxy.Log.String())
	}
	if err := proxy.Stop(); err != nil || row != warmRow {
		return err
	}
	return p.bareTools()
}

// bootModules loads the modules of svcproxy alone.
func bootModules(p *pass, row string, _ sources.Table, with func() error) error {
	return p.lap(row, with)
}

// bareTools runs the programs that a start of svcproxy has run, with the rules that it has left: iptables --version, and
// iptables-restore for both families at once.
func (p *pass) bareTools() error {
	tools := []string{"iptables", "ip6tables"}
	rules := make([]string, len(tools))
	for i, tool := range tools {
		for _, table := range []string{"nat", "filter"} {
			text, err := p.node.Run(tool+"-save", "-t", table)
			if err != nil {
				return err
			}
			rules[i] += text + "\n"
		}
	}
	return p.lapBy(rulesRow, "iptables", func() error {
		if _, err := p.node.Run(tools[0], "--version"); err != nil {
			return err
		}
		return atOnce(len(tools), func(i int) error {
			_, err := p.node.Feed(rules[i], tools[i]+"-restore", "--wait=5")
			return err
		})
	})
}

// atOnce calls f n times at once.
func atOnce(n int, f func(int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}

func bootKeepalived(p *pass, row string, t sources.Table, with func() error) error {
	dir, err := os.MkdirTemp("", "bench-keepalived-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	k := &keepalived{dir: dir}
	if err := k.configure(keepalivedConf(t)); err != nil {
		return err
	}
	defer k.stop()
	last := *t.Services.At(t.Services.Len() - 1)
	err = p.lap(row, func() error {
		if err := errors.Join(with(), k.start(p.node)); err != nil {
			return err
		}
		table, err := ipvs.Open(nil)
		if err != nil {
			return err
		}
		defer table.Close()
		return untilWeight(table, last, len(last.Endpoints)-1, 1)
	})
	if err != nil {
		return fmt.Errorf("%w; keepalived says:\n%s", err, k.out.String())
	}
	return nil
}

func bootHAProxy(p *pass, row string, t sources.Table, _ func() error) error {
	h, err := newHAProxy(p.node, t, 8080)
	if h != nil {
		defer h.stop()
	}
	if err != nil {
		return err
	}
	last := *t.Services.At(t.Services.Len() - 1)
	return p.lap(row, func() error {
		return errors.Join(h.start(p.node), h.untilWeight(last, len(last.Endpoints)-1, 1))
	})
}

// unload removes all modules of IPVS and netfilter, and dummy. A namespace that has just ended keeps some for a while.
func unload() error {
	settle()
	deadline := time.Now().Add(time.Minute)
	for {
		text, err := os.ReadFile("/proc/modules")
		if err != nil {
			return err
		}
		var left []string
		for line := range strings.Lines(string(text)) {
			if name, _, _ := strings.Cut(line, " "); ofNetfilter(name) && unix.DeleteModule(name, unix.O_NONBLOCK) != nil {
				left = append(left, name)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("modules are in use: %s", strings.Join(left, " "))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func ofNetfilter(module string) bool {
	return module == "dummy" || slices.ContainsFunc([]string{"ip_", "ip6_", "ipt_", "ip6t_", "iptable_", "ip6table_", "x_tables", "xt_", "nf_", "nft_", "nfnetlink"},
		func(prefix string) bool { return strings.HasPrefix(module, prefix) })
}
