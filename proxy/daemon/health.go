package daemon

import (
	"cmp"

	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// Health are the settings of health checks.
func (s Setup) Health() checker.Settings {
	h, defaults := s.Config.Health, s.Config.Health.Defaults()
	if s.Mode() == mode.IPVS {
		defaults.Probe.Way = sources.Way{Forward: cmp.Or(sources.Forward(s.Config.IPVS.Forward), sources.Masquerade),
			GUEPort: uint16(s.Config.IPVS.GUEPort)}
	}
	return checker.Settings{
		Defaults: defaults, Scheduler: s.Config.IPVS.Scheduler, Believe: h.MassFailure == "believe",
		Limits:   probe.Limits{InFlight: h.MaxInFlight, PerSecond: h.MaxProbesPerSecond, Exec: h.ExecMaxRunning},
		ExecUser: h.ExecUser,
	}
}

// newChecker makes what runs the health checks. It calls the loop, which is made after it, from Run on.
func (d *daemon) newChecker(s Setup) (*checker.Checker, error) {
	return checker.New(checker.Options{
		StateDir: s.Config.StateDir, Settings: s.Health(), Log: d.log.Logger, Keeper: d.keeper,
		ExecDirs:   s.Config.Health.ExecDirs,
		Wake:       func() { d.proxy.Replan() },
		Conditions: &d.conditions,
	})
}
