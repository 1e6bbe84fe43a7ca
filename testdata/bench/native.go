package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// A load is health checks of many targets. It is measured on this machine itself: an
// emulated processor says nothing about shares of a core. The checker is svcproxy's
// own with all that it does, in this process; what is left out is svcproxy's loop,
// which does nothing while no endpoint's health changes.
type load struct {
	kind     sources.CheckType
	targets  int
	interval time.Duration
}

var loads = []load{
	{sources.CheckTCP, 25000, 5 * time.Second},
	{sources.CheckHTTP, 5000, 2 * time.Second},
}

const (
	loadLength   = 20 * time.Second
	loadServices = 100
)

func (l load) row(what string) string {
	return fmt.Sprintf("%d %s targets every %v: %s", l.targets, l.kind, l.interval, what)
}

// natively measures the loads, and as root the soak in mode userspace, whatever else is asked for.
func (b *bench) natively() error {
	if b.run.MatchString("load") {
		if err := b.loads(); err != nil {
			return err
		}
	}
	if b.run.MatchString("soak") && os.Geteuid() == 0 {
		p := &pass{scenario: scenario{by: byRelay, only: kernel.IPv4}, bench: b}
		if err := p.onNewNode(func() error { return b.soakIn(p, "userspace") }); err != nil {
			return err
		}
		b.samples = append(b.samples, p.samples...)
	}
	b.table(b.out)
	return b.write()
}

func (b *bench) loads() error {
	port, stop, err := startServer()
	if err != nil {
		return err
	}
	defer stop()
	var tables []sources.Table
	for _, l := range loads {
		tables = append(tables, l.table(port))
	}
	debug.FreeOSMemory()
	resident := statusField(os.Getpid(), "RssAnon")
	for i, l := range loads {
		for range max(3, b.repeat) {
			if err := b.load(l, tables[i], resident); err != nil {
				return fmt.Errorf("%d %s targets: %w", l.targets, l.kind, err)
			}
		}
	}
	return nil
}

// load checks addresses of 127/8, which another process serves. resident is what this
// one takes without checks.
func (b *bench) load(l load, table sources.Table, resident int64) error {
	dir, err := os.MkdirTemp("", "bench-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	debug.FreeOSMemory()
	wake := make(chan struct{}, 1)
	c, err := checker.New(checker.Options{
		StateDir: dir, Log: slog.New(slog.DiscardHandler),
		Wake: func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		},
		Settings: checker.Settings{Defaults: sources.DefaultHealthCheck(), Scheduler: "rr"},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go replan(ctx, c, table, wake)
	go c.Run(ctx)
	time.Sleep(2 * l.interval) // every target was probed
	wake <- struct{}{}
	debug.FreeOSMemory() // svcproxy does so after a sync, too
	before, used, began := c.Stats(), ownTime(), time.Now()
	time.Sleep(loadLength)
	after, took := c.Stats(), time.Since(began)
	used = ownTime() - used
	started := after.Started - before.Started
	if want := float64(l.targets) * took.Seconds() / l.interval.Seconds(); float64(started) < want*0.9 {
		return fmt.Errorf("%d probes, want %.0f", started, want)
	}
	p := &pass{scenario: scenario{by: "svcproxy", only: kernel.IPv4}, bench: b}
	p.took(l.row("processor time a second"), time.Duration(float64(used)/took.Seconds()))
	p.took(l.row("processor time a probe"), used/time.Duration(started))
	p.took(l.row("started late, 99 % at most"), lateness(before, after, 0.99))
	p.resident(l.row("memory"), statusField(os.Getpid(), "RssAnon")-resident)
	p.number(l.row("void results"), int64(after.Void), "probes")
	p.number(l.row("endpoints that are not up"), down(c.View()), "endpoints")
	b.samples = append(b.samples, p.samples...)
	return nil
}

// replan is as much of svcproxy's loop as the checker needs.
func replan(ctx context.Context, c *checker.Checker, t sources.Table, wake <-chan struct{}) {
	for {
		c.Overlay(sources.Merged{Table: t}, &kernel.Observed{})
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// lateness is an upper bound of how late the fraction q of the probes started between
// two readings.
func lateness(before, after probe.Stats, q float64) time.Duration {
	for i, n := range before.Late {
		after.Late[i] -= n
	}
	after.Started -= before.Started
	return after.LateQuantile(q)
}

// down counts the endpoints that are not up.
func down(v health.View) (n int64) {
	for _, verdict := range v.Known.Verdicts.Of {
		if !verdict.Phase.IsUp() {
			n++
		}
	}
	return n
}

// table has the targets as services' endpoints.
func (l load) table(port uint16) sources.Table {
	check := sources.DefaultHealthCheck()
	check.Probe.Type, check.Interval = l.kind, l.interval
	check.Unset &^= sources.HealthInterval
	var all []sources.Service
	n := 0
	for i := range loadServices {
		s := sources.Service{
			Namespace: sources.DefaultNamespace, Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP, HealthCheck: &check,
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})},
			Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: port}},
		}
		for range l.targets / loadServices {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr: netip.AddrFrom4([4]byte{127, 1, byte(n >> 8), byte(n)}), Weight: 1, Ready: true, Serving: true,
				Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: port}},
			})
			n++
		}
		all = append(all, s)
	}
	return sources.Table{Services: sources.ServicesOf(all...)}
}

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverRole is the argument with which this program is the server of a load.
const serverRole = "serve"

// startServer starts the server as another process, so that its time does not count.
func startServer() (port uint16, stop func(), err error) {
	cmd := exec.Command("/proc/self/exe", serverRole)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(strings.TrimSpace(line), &port)
	}
	return port, stop, err
}

// serveLoad answers on all addresses, and prints its port.
func serveLoad() error {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // its part of a handshake would count as the checker's
	l, err := config.Listen(context.Background(), "tcp4", "0.0.0.0:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		c, err := l.Accept()
		if err != nil {
			continue
		}
		go func() {
			defer c.Close()
			if n, _ := c.Read(make([]byte, 512)); n > 0 {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
			}
		}()
	}
}
