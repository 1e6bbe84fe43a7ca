package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// keepalived measures the part that keepalived can do: virtual and real servers
// from a file, without addresses and health checks. It times the start to the last
// real server, and a reload after one endpoint changed.
func (b *bench) keepalived(p *pass) error {
	dir, err := os.MkdirTemp("", "bench-keepalived-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g, err := p.lay()
	if err != nil {
		return err
	}
	defer g.close()
	t := table(p.size, p.family)
	k := &keepalived{dir: dir}
	if err := k.configure(keepalivedConf(t)); err != nil {
		return err
	}
	defer k.stop()
	table, err := ipvs.Open(nil)
	if err != nil {
		return err
	}
	defer table.Close()
	last := *t.Services.At(t.Services.Len() - 1)
	err = p.lap(startRow, func() error {
		if err := k.start(p.node); err != nil {
			return err
		}
		return untilWeight(table, last, len(last.Endpoints)-1, 1)
	})
	if err != nil {
		return fmt.Errorf("%w; keepalived says:\n%s", err, k.out.String())
	}
	// The first reload after the start, as any later one, follows a pause.
	settle()
	p.resident(memoryRow, residentOfGroup(k.cmd.Process.Pid))
	changed := oneWeighed(t, 2)
	if err := k.configure(keepalivedConf(changed)); err != nil {
		return err
	}
	middle := *t.Services.At(t.Services.Len() / 2)
	reload := func(weight uint32) error {
		if err := k.cmd.Process.Signal(unix.SIGHUP); err != nil {
			return err
		}
		return untilWeight(table, middle, len(middle.Endpoints)/2, weight)
	}
	err = p.lap(saveRow, func() error { return reload(2) })
	for weight := uint32(3); weight <= 1+reloads && err == nil; weight++ {
		if err = k.configure(keepalivedConf(oneWeighed(t, weight))); err == nil {
			err = reload(weight)
		}
	}
	settle()
	p.resident(reloadedRow, residentOfGroup(k.cmd.Process.Pid))
	return err
}

// A keepalived is the program without VRRP, with files of its own.
type keepalived struct {
	dir string
	cmd *exec.Cmd
	out lab.Log
}

func (k *keepalived) file() string { return filepath.Join(k.dir, "keepalived.conf") }

func (k *keepalived) configure(conf string) error {
	return os.WriteFile(k.file(), []byte(conf), 0o644)
}

func (k *keepalived) start(on *lab.Host) error {
	// Its child programs are of its process group, and end with it.
	k.cmd = exec.Command("keepalived", "--dont-fork", "--log-console", "--check", "--use-file="+k.file(),
		"--pid="+filepath.Join(k.dir, "pid"), "--checkers_pid="+filepath.Join(k.dir, "checkers"))
	k.cmd.Stdout, k.cmd.Stderr = &k.out, &k.out
	return on.Start(k.cmd)
}

// stop ends it, if it was started.
func (k *keepalived) stop() {
	if k.cmd != nil && k.cmd.Process != nil {
		k.cmd.Process.Signal(unix.SIGTERM)
		k.cmd.Wait()
	}
}

// untilWeight waits for a real server to have a weight.
func untilWeight(t *ipvs.Table, s sources.Service, endpoint int, weight uint32) error {
	v := kernel.VirtualKey{Addr: s.ClusterIPs[0], Port: 80, Proto: kernel.TCP}
	want := netip.AddrPortFrom(s.Endpoints[endpoint].Addr, 8080)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		reals, _, err := t.Reals([]kernel.VirtualKey{v})
		if err != nil {
			return err
		}
		for _, r := range reals {
			if r.Key.Addr == want && r.Weight == weight {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v of %v has no weight of %d: %w", want, v, weight, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func keepalivedConf(t sources.Table) string {
	var b strings.Builder
	for _, s := range t.Services.All() {
		fmt.Fprintf(&b, "virtual_server %s 80 {\n  lvs_sched wrr\n  lvs_method NAT\n  protocol TCP\n", s.ClusterIPs[0])
		for _, e := range s.Endpoints {
			fmt.Fprintf(&b, "  real_server %s 8080 {\n    weight %d\n  }\n", e.Addr, e.Weight)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// residentOfGroup is the anonymous memory, in KiB, of a process and its children.
func residentOfGroup(pid int) int64 {
	n := statusField(pid, "RssAnon")
	for _, child := range children(pid) {
		n += statusField(child, "RssAnon")
	}
	return n
}

// children are the processes that a process started.
func children(pid int) (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(child); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// statusField is a number of a process's status: memory in KiB.
func statusField(pid int, name string) (n int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			fmt.Sscan(value, &n)
		}
	}
	return n
}
