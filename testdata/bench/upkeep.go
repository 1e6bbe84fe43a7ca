package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
)

// How long the cost of checks is measured, after every endpoint has been probed.
const (
	upkeepInterval = 5 * time.Second
	upkeepLength   = 4 * upkeepInterval
)

// upkeepSizes are 1,000 and 10,000 endpoints.
var upkeepSizes = []size{{100, 10}, {100, 100}}

const (
	upkeepProbe   = "a probe"
	upkeepTracked = "tracked connections"
)

func upkeepRow(sz size, what string) string {
	return fmt.Sprintf("%d tcp targets every %v: %s", sz.services*sz.endpoints, upkeepInterval, what)
}

// serveUpkeep makes the endpoints' addresses the node's own, and serves them all.
func (p *pass) serveUpkeep() (stop func(), err error) {
	if err := p.node.IP("route add local 10.128.0.0/16 dev lo"); err != nil {
		return nil, err
	}
	l, err := p.node.Listen(8080)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, c) // servers wait for the other side to end a connection
				c.Close()
			}()
		}
	}()
	return func() { l.Close() }, nil
}

// connections counts the connections that programs on the node have opened. The server
// cannot count them: svcproxy's probes end before a server accepts them.
func (p *pass) connections() (n int64, err error) {
	var text []byte
	err = p.node.Do(func() (err error) { text, err = os.ReadFile("/proc/thread-self/net/snmp"); return err })
	if err != nil {
		return 0, err
	}
	var tcp [][]string // names, and numbers
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "Tcp: ") {
			tcp = append(tcp, strings.Fields(line))
		}
	}
	if len(tcp) != 2 {
		return 0, fmt.Errorf("%d lines about TCP in snmp", len(tcp))
	}
	at := slices.Index(tcp[0], "ActiveOpens")
	if at < 0 || at >= len(tcp[1]) {
		return 0, errors.New("no ActiveOpens in snmp")
	}
	return strconv.ParseInt(tcp[1][at], 10, 64)
}

// upkeepOf runs a program that checks endpoints by connecting to each every 5 s, and
// measures its processor time.
func upkeepOf(sz size, start func(*bench, *pass, size) (pids []int, stop func(), err error)) func(*bench, *pass) error {
	return func(b *bench, p *pass) error {
		if p.counting {
			return nil // how many calls a checker makes depends on the time
		}
		stopServer, err := p.serveUpkeep()
		if err != nil {
			return err
		}
		defer stopServer()
		pids, stop, err := start(b, p, sz)
		if stop != nil {
			defer stop()
		}
		if err != nil {
			return err
		}
		time.Sleep(2 * upkeepInterval) // every endpoint was probed, and the start is over
		return p.upkeep(sz, pids)
	}
}

// upkeep adds the rows of the programs that check these endpoints.
func (p *pass) upkeep(sz size, pids []int) error {
	before, err := p.connections()
	if err != nil {
		return err
	}
	used, began := processorTime(pids), time.Now()
	time.Sleep(upkeepLength)
	used, took := processorTime(pids)-used, time.Since(began)
	probes, err := p.connections()
	if err != nil {
		return err
	}
	probes -= before
	want := float64(sz.services*sz.endpoints) * took.Seconds() / upkeepInterval.Seconds()
	if float64(probes) < want*0.8 {
		return fmt.Errorf("%d probes in %v, want %.0f", probes, took, want)
	}
	p.took(upkeepRow(sz, "a second"), time.Duration(float64(used)/took.Seconds()))
	p.took(upkeepRow(sz, upkeepProbe), used/time.Duration(probes))
	p.number(upkeepRow(sz, "probes a second"), int64(float64(probes)/took.Seconds()), "probes")
	var resident int64
	for _, pid := range pids {
		resident += statusField(pid, "RssAnon")
	}
	p.resident(upkeepRow(sz, "resident"), resident)
	tracked, err := p.trackedConnections()
	if err == nil {
		p.number(upkeepRow(sz, upkeepTracked), tracked, "entries")
	}
	return err
}

// processorTime is what processes have used, in user space and in the kernel.
func processorTime(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, fields, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(fields) // from the state on, which is field 3 of proc(5)
		if len(f) < 13 {
			continue
		}
		for _, ticks := range f[11:13] { // utime and stime
			n, _ := strconv.ParseInt(ticks, 10, 64)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

// trackedConnections counts the entries of connection tracking that have not expired.
// The kernel's own count has the others, too, until it removes them.
func (p *pass) trackedConnections() (int64, error) {
	out, err := p.node.Run("conntrack", "-L", "-p", "tcp")
	return int64(strings.Count(out, "\n")), err
}

// upkeepBySvcproxy starts the whole program.
func upkeepBySvcproxy(b *bench, p *pass, sz size) (pids []int, stop func(), err error) {
	proxy, ready, done, err := p.prepare(b.binary)
	if err != nil {
		return nil, nil, err
	}
	services := strings.ReplaceAll(text(table(sz, kernel.IPv4)), "endpoints = [", "healthCheck = \"tcp\"\nendpoints = [")
	err = errors.Join(
		proxy.Configure(programConfig+fmt.Sprintf("\nhealth.interval = \"%v\"", upkeepInterval)),
		proxy.Serve(services), proxy.Start())
	if err == nil {
		err = ready.wait()
	}
	if err != nil {
		return nil, done, fmt.Errorf("%w; its log:\n%s", err, proxy.Log.String())
	}
	return []int{proxy.Pid()}, done, nil
}

// upkeepByKeepalived starts its two processes, over svcproxy's rules: probes take the
// same way.
func upkeepByKeepalived(_ *bench, p *pass, sz size) (pids []int, stop func(), err error) {
	t := table(sz, kernel.IPv4)
	p.size = sz
	g, err := p.lay()
	p.size = size{}
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "bench-upkeep-")
	if err != nil {
		return nil, g.close, err
	}
	k := &keepalived{dir: dir}
	stop = func() {
		k.stop()
		g.close()
		os.RemoveAll(dir)
	}
	conf := strings.ReplaceAll(keepalivedConf(t), "  protocol TCP\n", fmt.Sprintf("  protocol TCP\n  delay_loop %v\n", upkeepInterval.Seconds()))
	conf = strings.ReplaceAll(conf, "    weight 1\n", "    weight 1\n    TCP_CHECK {\n      connect_timeout 2\n    }\n")
	if err := errors.Join(k.configure(conf), k.start(p.node)); err != nil {
		return nil, stop, err
	}
	virtuals, err := ipvs.Open(nil)
	if err != nil {
		return nil, stop, err
	}
	defer virtuals.Close()
	last := *t.Services.At(t.Services.Len() - 1)
	if err := untilWeight(virtuals, last, len(last.Endpoints)-1, 1); err != nil {
		return nil, stop, fmt.Errorf("%w; keepalived says:\n%s", err, k.out.String())
	}
	return append(children(k.cmd.Process.Pid), k.cmd.Process.Pid), stop, nil
}
