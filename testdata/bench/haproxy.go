package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// haproxyPatience is how long HAProxy may take to open its sockets.
const haproxyPatience = 5 * time.Minute

// An haproxy is the program with one worker, which listens at every VIP on one thread. Its master process reloads, as by
// `systemctl reload haproxy`.
type haproxy struct {
	dir  string
	port uint16 // of all endpoints
	cmd  *exec.Cmd
	out  lab.Log
}

func newHAProxy(on *lab.Host, t sources.Table, port uint16) (*haproxy, error) {
	dir, err := os.MkdirTemp("", "bench-haproxy-")
	if err != nil {
		return nil, err
	}
	h := &haproxy{dir: dir, port: port}
	route := "route add local 10.96.0.0/16 dev lo"
	if !t.Services.At(0).ClusterIPs[0].Is4() {
		route = "-6 route add local fd00:96::/64 dev lo"
	}
	return h, errors.Join(h.configure(t), on.IP(route))
}

func (h *haproxy) file() string { return filepath.Join(h.dir, "haproxy.cfg") }

func (h *haproxy) configure(t sources.Table) error {
	var conf strings.Builder
	conf.WriteString("global\n  nbthread 1\n  maxconn 1000\n  stats socket " + filepath.Join(h.dir, "stats") + "\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n")
	for _, s := range t.Services.All() {
		fmt.Fprintf(&conf, "listen %s\n  bind %v\n", s.Name, netip.AddrPortFrom(s.ClusterIPs[0], 80))
		for i, e := range s.Endpoints {
			fmt.Fprintf(&conf, "  server e%d %v weight %d\n", i, netip.AddrPortFrom(e.Addr, h.port), e.Weight)
		}
	}
	return os.WriteFile(h.file(), []byte(conf.String()), 0o644)
}

func (h *haproxy) start(on *lab.Host) error {
	h.cmd = exec.Command("haproxy", "-W", "-db", "-f", h.file())
	h.cmd.Stdout, h.cmd.Stderr = &h.out, &h.out
	return on.Start(h.cmd)
}

// untilWeight waits until the worker that answers has a server at a weight.
func (h *haproxy) untilWeight(s sources.Service, endpoint int, weight uint32) error {
	want := fmt.Sprintf("%d (initial %d)", weight, weight)
	return lab.Eventually(haproxyPatience, func() error {
		got, err := h.ask(fmt.Sprintf("get weight %s/e%d", s.Name, endpoint))
		if err == nil && got != want {
			err = fmt.Errorf("%s has weight %q, want %q", s.Name, got, want)
		}
		if err != nil {
			err = fmt.Errorf("%w; HAProxy says:\n%s", err, h.out.String())
		}
		return err
	})
}

// ask returns the first line of the answer to a command of the statistics socket.
func (h *haproxy) ask(command string) (string, error) {
	c, err := net.Dial("unix", filepath.Join(h.dir, "stats"))
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintln(c, command); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

func (h *haproxy) stop() {
	if h.cmd != nil && h.cmd.Process != nil {
		h.cmd.Process.Signal(unix.SIGTERM)
		h.cmd.Wait()
	}
	os.RemoveAll(h.dir)
}

// serveByHAProxy has HAProxy listen at every VIP.
func serveByHAProxy(l *lab.Lab, t sources.Table) (stop func(), err error) {
	h, err := newHAProxy(l.Node, t, 8081)
	if h == nil {
		return nil, err
	}
	if err = errors.Join(err, h.start(l.Node)); err == nil {
		last := *t.Services.At(t.Services.Len() - 1)
		err = h.untilWeight(last, 0, last.Endpoints[0].Weight)
	}
	return h.stop, err
}

// haproxy does what keepalived does: a start, and a reload after one endpoint changed. It has no kernel to program, and
// carries every byte itself.
func (b *bench) haproxy(p *pass) error {
	t := table(p.size, p.family)
	h, err := newHAProxy(p.node, t, 8080)
	if h != nil {
		defer h.stop()
	}
	if err != nil {
		return err
	}
	last, middle := *t.Services.At(t.Services.Len() - 1), *t.Services.At(t.Services.Len() / 2)
	err = p.lap(startRow, func() error {
		return errors.Join(h.start(p.node), h.untilWeight(last, len(last.Endpoints)-1, 1))
	})
	if err != nil {
		return err
	}
	settle()
	p.resident(memoryRow, residentOfGroup(h.cmd.Process.Pid))
	if err := h.configure(oneWeighed(t, 2)); err != nil {
		return err
	}
	return p.lap(saveRow, func() error {
		if err := h.cmd.Process.Signal(unix.SIGUSR2); err != nil {
			return err
		}
		return h.untilWeight(middle, len(middle.Endpoints)/2, 2)
	})
}
