package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// The rows of every program that reads a file.
const (
	startRow  = "start to last real server"
	saveRow   = "saved file to kernel, one endpoint"
	ofVaried  = ", varied file"
	memoryRow = "resident" // without the program's file, whose pages the page cache has
	peakRow   = "resident, peak"

	reloads     = 3
	reloadedRow = "resident, after three reloads"

	// returned is longer than svcproxy waits after a change until it returns the last memory.
	returned = 3 * time.Second
)

// programConfig: the debounce is waiting, not work.
const programConfig = "ipvs.scheduler = \"wrr\"\nipvs.syncPeriod = \"1h\"\nsources.file.debounce = \"1ms\""

// prepare returns a command that is not started yet, and a channel that is closed when
// the program is ready. done ends the program and removes its files.
func (p *pass) prepare(binary string) (proxy *lab.Proxy, ready readiness, done func(), err error) {
	dir, err := os.MkdirTemp("", "bench-program-")
	if err != nil {
		return nil, readiness{}, nil, err
	}
	if proxy, err = lab.NewProxy(p.node, binary, dir, programConfig); err == nil {
		ready, err = listenReady(dir)
	}
	if err != nil {
		return nil, readiness{}, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return proxy, ready, func() {
		ready.close()
		proxy.Kill()
		os.RemoveAll(dir)
	}, nil
}

// program is the real binary: from its start, and from a saved file, to the kernel. Then the same with a file in which
// no two services are written alike.
func (b *bench) program(p *pass) error {
	proxy, start, done, err := p.served("", text)
	if err != nil {
		return err
	}
	defer done()
	if err := p.adopt(proxy, start); err != nil {
		return err
	}
	return p.lap("cleanup, by command", func() error { return cleanup(proxy) })
}

// varied is program's start and change with the file that people write.
func (b *bench) varied(p *pass) error {
	proxy, _, done, err := p.served(ofVaried, variedText)
	if err != nil {
		return err
	}
	defer done()
	return errors.Join(proxy.Stop(), cleanup(proxy))
}

// served starts the program, saves a file with one endpoint changed, and leaves it running. suffix ends the names of the rows, and
// write makes a file of a table.
func (p *pass) served(suffix string, write func(sources.Table) string) (proxy *lab.Proxy, start func() error, done func(), err error) {
	proxy, ready, done, err := p.prepare(p.bench.binary)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	t := table(p.size, p.family)
	if err := proxy.Serve(write(t)); err != nil {
		return nil, nil, nil, err
	}
	start = func() error { return begin(proxy, ready) }
	if err := p.lap(startRow+suffix, start); err != nil {
		return nil, nil, nil, err
	}
	settle()
	p.resident(memoryRow+suffix, statusField(proxy.Pid(), "RssAnon"))
	p.resident(peakRow+suffix, statusField(proxy.Pid(), "VmHWM"))
	changed := write(oneWeighed(t, 2))
	err = p.lap(saveRow+suffix, func() error { return save(proxy, changed) })
	if err == nil {
		time.Sleep(returned)
		settle()
		p.resident("resident, after a change"+suffix, statusField(proxy.Pid(), "RssAnon"))
	}
	for weight := uint32(3); weight <= 1+reloads && err == nil; weight++ {
		err = save(proxy, write(oneWeighed(t, weight)))
	}
	time.Sleep(returned)
	settle()
	p.resident(reloadedRow+suffix, statusField(proxy.Pid(), "RssAnon"))
	return proxy, start, done, err
}

// begin starts the program and waits until all of its file is served.
func begin(proxy *lab.Proxy, ready readiness) error {
	if err := proxy.Start(); err != nil {
		return err
	}
	if err := ready.wait(); err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, proxy.Log.String())
	}
	return nil
}

// save replaces the file and waits until it is in the kernel.
func save(proxy *lab.Proxy, content string) error {
	mark := proxy.Log.Len()
	if err := proxy.Serve(content); err != nil {
		return err
	}
	_, err := proxy.Wait(mark, lab.Synced)
	return err
}

// lean is the memory of the binary that is built without API servers.
func (b *bench) lean(p *pass) error {
	proxy, ready, done, err := p.prepare(b.binary + "-noapiserver")
	if err != nil {
		return err
	}
	defer done()
	if err := errors.Join(proxy.Serve(text(table(p.size, p.family))), proxy.Start()); err != nil {
		return err
	}
	if err := ready.wait(); err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, proxy.Log.String())
	}
	settle()
	p.resident("resident, without API servers", statusField(proxy.Pid(), "RssAnon"))
	if err := proxy.Stop(); err != nil {
		return err
	}
	return cleanup(proxy)
}

// cleanup is the command of that name.
func cleanup(proxy *lab.Proxy) error {
	out, code, err := proxy.Command("cleanup")
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, out)
	}
	return err
}

// adopt starts again over a kernel that is as wanted.
func (p *pass) adopt(proxy *lab.Proxy, start func() error) error {
	if err := proxy.Stop(); err != nil {
		return err
	}
	mark := proxy.Log.Len()
	if err := p.lap("restart, adopting", start); err != nil {
		return err
	}
	if log := proxy.Log.String()[mark:]; strings.Contains(log, "msg=synced") {
		return fmt.Errorf("a restart wrote to the kernel:\n%s", log)
	}
	return proxy.Stop()
}

// readiness is what systemd is to svcproxy: a socket that is told READY.
type readiness struct{ conn *net.UnixConn }

func listenReady(dir string) (readiness, error) {
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return readiness{}, err
	}
	return readiness{conn}, os.Setenv("NOTIFY_SOCKET", path)
}

func (r readiness) close() {
	os.Unsetenv("NOTIFY_SOCKET")
	r.conn.Close()
}

func (r readiness) wait() error {
	buf := make([]byte, 4096)
	r.conn.SetReadDeadline(time.Now().Add(10 * time.Minute))
	for {
		n, err := r.conn.Read(buf)
		if err != nil {
			return errors.Join(errors.New("svcproxy did not say that it is ready"), err)
		}
		for line := range strings.Lines(string(buf[:n])) {
			if strings.TrimSpace(line) == "READY=1" {
				return nil
			}
		}
	}
}

var initLine = regexp.MustCompile(`^init (\S+) @\S+ ms, (\S+) ms clock`)

// startup is what a process of ours costs before main, and before any work: the
// initialisation of its packages, the dearest of which are said.
func (b *bench) startup(p *pass) error {
	if err := p.lap("process: version", func() error { _, err := p.node.Run(b.binary, "version"); return err }); err != nil {
		return err
	}
	os.Setenv("GODEBUG", "inittrace=1")
	defer os.Unsetenv("GODEBUG")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var log lab.Log
	if err := runLogged(ctx, p.node, &log, b.binary, "version"); err != nil {
		return err
	}
	var total time.Duration
	for line := range strings.Lines(log.String()) {
		m := initLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		d, err := time.ParseDuration(m[2] + "ms")
		if err != nil {
			return err
		}
		total += d
		if p.counting && d > time.Millisecond {
			fmt.Fprintf(b.out, "  initialising %s: %v\n", m[1], d)
		}
	}
	p.took("process: packages' initialisation", total)
	return nil
}

// runLogged runs a program to its end; what it says goes to a log.
func runLogged(ctx context.Context, on *lab.Host, log *lab.Log, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := on.Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}
