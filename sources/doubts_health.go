package sources

import (
	"slices"
	"time"
)

// LostSYN is the shortest timeout with which a probe over TCP survives the loss of one SYN: Linux sends it again after
// a second (TCP_TIMEOUT_INIT), and the answer takes time.
const LostSYN = 1100 * time.Millisecond

// health warns of health checks that are probably not as they were meant.
func (j *judgement) health(s *Service) {
	unchecked := slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool { return e.Unchecked })
	if len(s.Endpoints) > 0 && !slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool { return !e.Backup }) {
		j.doubt(s, "all endpoints are backups: they are used as if none was")
	}
	c := s.HealthCheck
	if c == nil {
		if unchecked {
			j.doubt(s, `healthCheck = "off" of an endpoint has no effect: the service has no health check`)
		}
		return
	}
	j.viaVIP(s)
	if !c.Unset.Has(HealthTimeout) && c.Probe.Timeout < LostSYN && c.Probe.Type.Protocol() == TCP {
		j.doubt(s, "health check: timeout %s is shorter than 1.1s: "+
			"one lost SYN fails the probe, as it is sent again after 1s", c.Probe.Timeout)
	}
	if c.Unset.Has(HealthTimeout) != c.Unset.Has(HealthInterval) && c.Probe.Timeout > 10*c.Interval {
		j.doubt(s, "health check: timeout %s is more than 10 times the interval, %s: give both keys", c.Probe.Timeout,
			c.Interval)
	}
	if scheduler := j.host.scheduler(s); c.SlowStart > 0 && s.Scheduler == "" && !SlowStarts(scheduler) {
		j.doubt(s, `health check: slowStart has no effect under scheduler %q, the node's default: "wrr" heeds weights`,
			scheduler)
	}
	if n := len(s.Endpoints); !c.MinHealthyPercent && c.MinHealthy > n && n > 0 {
		j.doubt(s, "health check: minHealthy %d is more than the number of endpoints, %d: all count as up, whatever their "+
			"health", c.MinHealthy, n)
	}
}
