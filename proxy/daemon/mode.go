package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// modes returns the modes of this build, in the order of preference.
func modes() []mode.Mode {
	return []mode.Mode{new(ipvs.Mode), new(iptables.Mode), userspace.Mode{}}
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

// Open opens the kernel for objects with these names, in the configured mode. If none is configured it is the first mode
// that this machine has everything for. The mode stays the same as long as the process runs: what goes away later is a
// fault, and no reason to serve differently.
func (s *Setup) Open(ctx context.Context, names kernel.Names) (*host.Kernel, error) {
	found, err := mode.Choose(s.Config.Mode, modes()...)
	if err != nil {
		return nil, err
	}
	for i, m := range found {
		k, err := s.openFor(ctx, names, m)
		missing := kernel.Missing(err)
		if len(missing) == 0 {
			return k, err
		}
		reason, hint := explain(missing, host.Unbooted("/lib/modules"))
		if i < len(found)-1 {
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

// openFor opens the kernel for one mode.
func (s *Setup) openFor(ctx context.Context, names kernel.Names, m mode.Mode) (*host.Kernel, error) {
	if err := s.newRelay(m); err != nil {
		return nil, err
	}
	k, err := host.Open(ctx, host.Options{
		Names: names, NodeName: s.Node(), Zone: s.Config.Node.Zone,
		StateDir: s.Config.StateDir, Sysctls: m.Sysctls(), Restored: allSysctls(), Needs: m.Needs(), Tables: s.Tables, Relay: s.relay,
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
	s.used, s.noDevice = m, !k.HasDevices()
	s.ownsConntrackMax, s.ownsConntrackBuckets = k.CanWrite(mode.ConntrackMax), k.CanWrite(mode.ConntrackBuckets)
	return k, nil
}

// try asks the kernel for the rules of a mode.
func (s *Setup) try(ctx context.Context, k *host.Kernel, names kernel.Names, m mode.Mode) error {
	rules := m.Trial(names)
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

// SettleFor takes from what the kernel has which extras of the mode are absent. It is for a command that does not try
// rules: its plan then has the rules that a running svcproxy writes.
func (s *Setup) SettleFor(have *kernel.Observed) {
	s.without = nil
	for _, extra := range s.mode().Extras(have.Names) {
		if extra.Absent(&have.State) {
			s.without = append(s.without, extra.Without)
		}
	}
}

// Relays reports whether svcproxy itself balances what a mode wants virtual servers for. The kernel has none of them then.
func (s Setup) Relays() bool {
	needs := s.mode().Needs()
	return !slices.Contains(needs, kernel.IPVSAdapter) && !slices.Contains(needs, kernel.IPTablesAdapter)
}

// periods are how often the kernel is checked as a whole, and the least time between two syncs.
func (s Setup) periods() (sync, minSync time.Duration) {
	p := s.mode().Periods(s.forMode())
	return p.Sync, p.MinSync
}
