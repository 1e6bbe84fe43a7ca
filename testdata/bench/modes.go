package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/nftables"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
)

// backends are those of iptables. Mode iptables is measured with both, and so are the
// same rules given to iptables-restore, which is the lower bound of a load.
var backends = []string{"nft", "legacy"}

// modes are the scenarios that compare svcproxy's modes. Mode ipvs is "svcproxy", as in
// the other rows.
func modes() []scenario {
	all := []scenario{{name: "modes", by: "svcproxy", run: func(_ *bench, p *pass) error {
		return p.loop(new(ipvs.Mode), nil, p.driveMode)
	}}, {name: "modes", by: byRelay, run: func(_ *bench, p *pass) error {
		return withFiles(openFiles, p.relayed)
	}}, {name: "modes", by: byNFT, run: func(_ *bench, p *pass) error {
		return p.loop(nftRules{new(nftables.Mode)}, nil, p.driveMode)
	}}, {name: "modes", by: byNFTRules, run: func(_ *bench, p *pass) error {
		return p.loop(nftRules{new(ipvs.Mode)}, nil, p.driveMode)
	}}}
	for _, backend := range backends {
		all = append(all, scenario{name: "modes", by: byRules(backend), run: func(_ *bench, p *pass) error {
			return withBackend(backend, func() error { return p.loop(new(iptables.Mode), nil, p.driveMode) })
		}}, scenario{name: "modes", by: byRestore(backend), outside: true, run: func(_ *bench, p *pass) error {
			return withBackend(backend, p.restore)
		}})
	}
	for i := range all {
		all[i].only, all[i].clock = kernel.IPv4, "instructions"
	}
	return all
}

const byRelay = "userspace"

func byRules(backend string) string   { return "iptables, " + backend }
func byRestore(backend string) string { return "iptables-restore, " + backend }

// withBackend runs f with one back end of iptables on PATH, for this process and those
// that it starts.
func withBackend(name string, f func() error) error {
	multi, err := exec.LookPath("xtables-" + name + "-multi")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-iptables-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, tool := range []string{"iptables", "ip6tables"} {
		for _, does := range []string{"", "-save", "-restore"} {
			if err := os.Symlink(multi, filepath.Join(dir, tool+does)); err != nil {
				return err
			}
		}
	}
	path := os.Getenv("PATH")
	defer os.Setenv("PATH", path)
	os.Setenv("PATH", dir+string(os.PathListSeparator)+path)
	return f()
}

// relayed measures mode userspace, whose virtual servers are listeners of this process.
func (p *pass) relayed() error {
	r, err := relay.New(relay.Options{})
	if err != nil {
		return err
	}
	defer r.Close()
	return p.loop(userspace.Mode{}, r, p.driveMode)
}

// withFiles runs f with another limit of open files for this process.
func withFiles(limit uint64, f func() error) error {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: was.Max}); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	return f()
}

const (
	allNew      = "table to kernel, all new"
	oneEndpoint = "table to kernel, one endpoint"
)

// driveMode is the part of drive that modes are compared by.
func (p *pass) driveMode(ctx context.Context, loop *proxy.Proxy, h hand, synced <-chan *proxy.Snapshot) error {
	emit, check := hands(ctx, loop, h, synced)
	t := table(p.size, p.family)
	if err := p.lap(allNew, uncollected(emit(t))); err != nil {
		return err
	}
	if err := check(); err != nil { // iptables-save runs for the last time
		return err
	}
	if err := p.lap("idle check", check); err != nil {
		return err
	}
	if err := emit(oneWeighed(t, 3))(); err != nil { // the first takes memory from the system
		return err
	}
	return p.lap(oneEndpoint, emit(oneWeighed(t, 2)))
}

// startLimit is how many bytes the program may take at a start before it collects garbage: that of
// proxy/daemon.
const startLimit = 64 << 20

// uncollected is f without garbage collection below startLimit, as the program starts: see
// deferCollection of proxy/daemon.
func uncollected(f func() error) func() error {
	return func() error {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(startLimit))
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		return f()
	}
}

// restore gives iptables-restore the rules that mode iptables wants.
func (p *pass) restore() error {
	t := table(p.size, p.family)
	state := new(iptables.Mode).State(frontend.List(t, kernel.Node{}, ruled().Frontends), ruled())
	input := func(f kernel.Family) string {
		return kernel.State{Chains: slices.DeleteFunc(slices.Clone(state.Chains), func(c kernel.Chain) bool { return c.Family != f })}.String()
	}
	v4, v6 := input(kernel.IPv4), input(kernel.IPv6)
	return p.lap(allNew, func() error {
		if _, err := p.node.Feed(v4, "iptables-restore", "--noflush"); err != nil {
			return err
		}
		_, err := p.node.Feed(v6, "ip6tables-restore", "--noflush")
		return err
	})
}

// modeGates are what mode iptables may cost.
func modeGates(sz size) []gate {
	var all []gate
	for _, backend := range backends {
		load := gate{
			what: fmt.Sprintf("%v: mode iptables (%s): load, of a bare iptables-restore", sz, backend),
			of:   cell{allNew, byRules(backend), sz.String(), ""}, per: cell{allNew, byRestore(backend), sz.String(), ""},
			value: instructions, unit: "x",
		}
		if load.instead = "bound at 5000x5"; sz == (size{5000, 5}) {
			load.most, load.instead = 1.3, ""
		}
		all = append(all, load, gate{
			what: fmt.Sprintf("%v: mode iptables (%s): programs executed for one endpoint", sz, backend),
			of:   cell{oneEndpoint, byRules(backend), sz.String(), ""}, value: func(s sample) float64 { return float64(s.Execs) }, most: 2,
		})
	}
	return all
}
