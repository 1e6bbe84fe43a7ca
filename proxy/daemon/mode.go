package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/nftables"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// inOrder returns the modes that Open may choose, in the order of preference. Where mode ipvs falls back, iptables is
// next, as in kube-proxy.
func (s Setup) inOrder() ([]mode.Mode, error) {
	if s.Config.ModeFallsBack {
		return []mode.Mode{new(ipvs.Mode), new(iptables.Mode), new(nftables.Mode), userspace.Mode{}}, nil
	}
	return mode.Choose(s.Config.Mode, modes()...)
}

// modes returns the modes of this build, in the order of preference.
func modes() []mode.Mode {
	return []mode.Mode{new(ipvs.Mode), new(nftables.Mode), new(iptables.Mode), userspace.Mode{}}
}

// allSysctls are the kernel parameters of all modes, sorted: the last run may have been in another one.
func allSysctls() (names []string) {
	for _, m := range modes() {
		names = append(names, m.Sysctls()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Mode is the name of the mode that Open chose, before that the name of the configured one, or else of the one that is
// preferred.
func (s Setup) Mode() string { return s.mode().Name() }

// Native reports whether nftables writes the rules of the mode that Open chose, before that of the configured one.
func (s Setup) Native() bool {
	return s.used != nil && s.native || s.used == nil && s.ways(s.mode())[0].native
}

// mode returns the mode that Open chose, before that the configured one, or else the one that is preferred.
func (s Setup) mode() mode.Mode {
	if s.used != nil {
		return s.used
	}
	found, err := mode.Choose(s.Config.Mode, modes()...)
	if err != nil {
		return modes()[0]
	}
	return found[0]
}

// AsLastRun is the setup for the mode of the last run, if the configuration leaves the choice to the machine: the best
// guess of a command that does not open the kernel.
func (s Setup) AsLastRun() Setup {
	if s.Config.Strict() || s.used != nil {
		return s
	}
	last, _ := host.LastMode(s.Config.StateDir) // "" before the first run, or without the right to read it
	for _, m := range modes() {
		for _, c := range s.ways(m) {
			if c.String() == last {
				s.used, s.native = m, c.native
			}
		}
	}
	return s
}

// way is a mode with what writes its rules.
type way struct {
	mode.Mode
	native bool // kernel/nft, and neither iptables nor ipset
}

// String is the mode's name, and "nftables" if that writes its rules.
func (w way) String() string {
	if w.native && w.Name() != mode.NFTables {
		return w.Name() + " " + config.BackendNFTables
	}
	return w.Name()
}

// ways returns a mode with each back end that it may have, in the order of preference. A command that does not try
// rules prefers that of the last run.
func (s *Setup) ways(m mode.Mode) []way {
	byTables, native := way{m, false}, way{m, true}
	switch backend := s.Config.Rules.Backend; {
	case s.used != nil && s.used.Name() == m.Name():
		return []way{{m, s.native}}
	case m.Name() == mode.NFTables:
		return []way{native}
	case m.Name() != mode.IPVS || backend == config.BackendIPTables:
		return []way{byTables}
	case backend == config.BackendNFTables:
		return []way{native}
	}
	if !s.Writes {
		if last, _ := host.LastMode(s.Config.StateDir); last == native.String() {
			return []way{native, byTables}
		}
	}
	return []way{byTables, native}
}

// ModeDoubts are what the mode serves otherwise than the services ask for, and endpoints whose replies a
// bridge carries past the rules.
func (s Setup) ModeDoubts(t sources.Table, n kernel.Node) []string {
	doubts := append(mode.Bridged(t, n, s.forMode()), s.mode().Doubts(s.Fronts(t, n), s.forMode())...)
	if why := NoLimits(t); why != "" {
		doubts = append(doubts, "services with allow, deny or limits are not served: "+why)
	}
	return doubts
}

// NoLimits is sources.HostFacts.NoLimits for a program that may not load a module to see, if a service has limits.
func NoLimits(tables ...sources.Table) string {
	if !sources.Limited(tables) || !machine.ReadModules().Lacks("nf_tables") {
		return ""
	}
	return kernel.ErrNoNFTables.What
}

// maxPrograms bounds what ProgramDoubts returns.
const maxPrograms = 20

// ProgramDoubts says which programs of health checks are not run, and why. Those that are not there are left
// out unless missing asks for them.
func (s Setup) ProgramDoubts(t sources.Table, missing bool) (list []string) {
	seen := map[string]bool{}
	for i := range t.Services.Len() {
		service := t.Services.At(i)
		if service.HealthCheck == nil || service.HealthCheck.Probe.Type != sources.CheckExec ||
			seen[service.HealthCheck.Probe.Command] {
			continue
		}
		command := service.HealthCheck.Probe.Command
		seen[command] = true
		_, err := machine.ProgramIn(command, s.Config.Health.ExecDirs)
		if err == nil || len(list) == maxPrograms {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			list = append(list, fmt.Sprintf("%s: the program of its health check is not run here: %v (health.execDirs of "+
				"svcproxy.toml)",
				service.DisplayName(), err))
		} else if missing {
			list = append(list, fmt.Sprintf("%s: the program of its health check is not here: %s", service.DisplayName(),
				command))
		}
	}
	return list
}

// loadModules loads the kernel modules of the configured mode, or else of the preferred one, before Open
// would load them one by one. The unit has loaded them, so this is for a start by hand, or in a container
// with the right to do so.
func (s *Setup) loadModules(ctx context.Context) {
	native := s.Config.Rules.Backend == config.BackendNFTables
	needed := machine.Needed(s.Mode(), native)
	if needed != nil && !native {
		needed = slices.Concat(needed, machine.BackEnds)
	}
	host.LoadModules(ctx, needed)
}

// Open opens the kernel for objects with these names, in the first mode in order that this machine has everything for.
// The mode stays the same as long as the process runs: what goes away later is a fault, and no reason to serve
// differently.
func (s *Setup) Open(ctx context.Context, names kernel.Names) (*host.Kernel, error) {
	found, err := s.inOrder()
	if err != nil {
		return nil, err
	}
	for i, m := range found {
		last := i == len(found)-1
		var k *host.Kernel
		for j, w := range s.ways(m) {
			if k, err = s.openPatiently(ctx, names, w, !last || j+1 < len(s.ways(m))); len(kernel.Missing(err)) == 0 {
				return k, err
			}
		}
		// What the last back end lacks is the least.
		reason, hint := reasonOf(kernel.Missing(err), host.Unbooted("/lib/modules"))
		if !last {
			s.Fallbacks = append(s.Fallbacks, status.Fallback{Mode: m.Name(), Reason: reason, Hint: hint})
			continue
		}
		if hint == reboot {
			err = &kernel.MissingError{What: reason, Hint: hint}
		}
		return nil, err
	}
	return nil, errors.New("this build has no modes")
}

// openPatiently opens the kernel for one mode. If the last run had that mode and there is another one to fall
// back to, it tries again after modeGrace: at boot, modules may be loaded later than svcproxy starts.
func (s *Setup) openPatiently(ctx context.Context, names kernel.Names, w way, more bool) (*host.Kernel, error) {
	k, err := s.openFor(ctx, names, w)
	missing, grace := kernel.Missing(err), s.Config.ModeGrace
	if len(missing) == 0 || !more || w.String() != s.lastMode || grace <= 0 {
		return k, err
	}
	reason, _ := reasonOf(missing, "")
	s.log.Warn("the mode of the last run is not available yet: trying again", "mode", w.String(), "reason", reason,
		"after", grace)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(grace):
	}
	return s.openFor(ctx, names, w)
}

// openFor opens the kernel for one mode.
func (s *Setup) openFor(ctx context.Context, names kernel.Names, m way) (*host.Kernel, error) {
	if err := s.newRelay(m.Mode); err != nil {
		return nil, err
	}
	k, err := host.Open(ctx, host.Options{
		Names: names, NodeName: s.Node(), Zone: s.Config.Node.Zone,
		StateDir: s.Config.StateDir, Keeper: s.keeper, Sysctls: m.Sysctls(), Restored: allSysctls(), Needs: m.Needs(),
		Native: m.native, KubeProxyTables: s.KubeProxyTables, Tables: s.Tables, Relay: s.relay,
	})
	if err != nil {
		return nil, err
	}
	if s.Writes {
		if err := s.try(ctx, k, names, m); err != nil {
			k.Close()
			return nil, err
		}
	}
	s.used, s.native, s.noDevice = m.Mode, m.native, !k.HasDevices()
	s.ownsConntrackMax, s.ownsConntrackBuckets = k.CanWrite(mode.ConntrackMax), k.CanWrite(mode.ConntrackBuckets)
	return k, nil
}

// trial returns the rules of a mode that the kernel is asked for. In mode ipvs there are none if a run of this boot and
// version had them, and those of iptables only if nftables or another mode may take their place and a module is not
// loaded.
func (s *Setup) trial(names kernel.Names, m way, loaded func() bool) []kernel.Chain {
	only := len(s.ways(m.Mode)) == 1 && s.Config.Strict()
	switch {
	case m.Name() == mode.NFTables && s.Config.NFTables.Flowtable:
		return append(m.Trial(names), nftables.FlowtableTrial(names)...)
	case m.Name() != mode.IPVS:
		return m.Trial(names)
	case s.tried && s.lastMode == m.String():
		return nil
	case m.native:
		return ipvs.NativeTrial(names)
	case only || loaded():
		return nil
	}
	return m.Trial(names)
}

// try asks the kernel for the rules of a mode.
func (s *Setup) try(ctx context.Context, k *host.Kernel, names kernel.Names, m way) error {
	rules := s.trial(names, m, func() bool { return host.HasModules(machine.Needed(m.Name(), false)) })
	if len(rules) == 0 {
		return nil
	}
	if err := k.Try(ctx, rules); err != nil {
		return err
	}
	for _, extra := range m.Extras(names) {
		err := k.Try(ctx, extra.Trial)
		var missing *kernel.MissingError
		switch {
		case errors.As(err, &missing):
			s.without = append(s.without, extra.Without)
		case err != nil:
			return err
		}
	}
	return nil
}

// AsInKernel drops the extras of the mode that a reading of the kernel is without, and takes over the portals that it
// shows. It is for a command that does not try rules: its plan then has the rules that a running svcproxy writes.
func (s *Setup) AsInKernel(have *kernel.Observed) {
	s.without = nil
	if s.Relays() {
		open := userspace.PortalsOf(&have.State, have.Names)
		s.without = append(s.without, func(c *mode.Config) { c.Portals = open })
	}
	for _, extra := range s.mode().Extras(have.Names) {
		if extra.Absent(&have.State) {
			s.without = append(s.without, extra.Without)
		}
	}
}

// Relays reports whether svcproxy itself balances what a mode wants virtual servers for. The kernel has none
// of them then.
func (s Setup) Relays() bool {
	needs := s.mode().Needs()
	return !slices.Contains(needs, kernel.IPVSAdapter) && !slices.Contains(needs, kernel.IPTablesAdapter)
}

// periods are how often the kernel is checked as a whole, and the least time between two syncs.
func (s Setup) periods() (sync, minSync time.Duration) {
	p := s.mode().Periods(s.forMode())
	return p.Sync, p.MinSync
}
