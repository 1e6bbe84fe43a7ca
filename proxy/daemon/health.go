package daemon

import (
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
)

// Health are the settings of health checks.
func (s Setup) Health() checker.Settings {
	h := s.Config.Health
	return checker.Settings{
		Defaults: h.Defaults(), Scheduler: s.Config.IPVS.Scheduler, Believe: h.MassFailure == "believe",
		Limits:   probe.Limits{InFlight: h.MaxInFlight, PerSecond: h.MaxProbesPerSecond, Exec: h.ExecMaxRunning},
		ExecUser: h.ExecUser,
	}
}

// newChecker makes what runs the health checks. It calls the loop, which is made after it, from Run on.
func (d *daemon) newChecker(s Setup) (*checker.Checker, error) {
	return checker.New(checker.Options{
		StateDir: s.Config.StateDir, Settings: s.Health(), Log: d.log.Logger,
		Wake: func() { d.proxy.Replan() },
	})
}
