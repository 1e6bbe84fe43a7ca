package config

import (
	"fmt"
	"math"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// Health is table health: what services' health checks have where they give nothing, and limits of all checks.
type Health struct {
	Interval, Timeout          time.Duration
	Fall, Rise                 int
	FastInterval, DownInterval time.Duration
	Jitter                     float64
	OnDown                     sources.OnDown
	OnAllDown                  sources.OnAllDown
	MinHealthy                 fields.Amount
	SlowStart                  time.Duration

	MaxProbesPerSecond int
	MaxInFlight        int
	ExecDirs           []string
	ExecUser           string // "" = svcproxy's own
	ExecMaxRunning     int
	MassFailure        string // hold or believe
}

// Defaults returns the health check that sources.HealthCheck.OnNode takes. It has no type.
func (h Health) Defaults() sources.HealthCheck {
	c := sources.DefaultHealthCheck()
	c.Interval, c.Probe.Timeout, c.FastInterval, c.DownInterval = h.Interval, h.Timeout, h.FastInterval, h.DownInterval
	c.Fall, c.Rise, c.Jitter = h.Fall, h.Rise, h.Jitter
	c.OnDown, c.OnAllDown = h.OnDown, h.OnAllDown
	c.MinHealthy, c.MinHealthyPercent, c.SlowStart = h.MinHealthy.N, h.MinHealthy.Percent, h.SlowStart
	return c
}

var (
	pauses  = fields.DurationIn(10*time.Millisecond, 24*time.Hour)
	results = fields.Int(1, 1000)
	limit   = fields.Int(1, math.MaxInt32)
)

// healthFields are the keys of table health. The defaults of checks are those of package sources.
func healthFields() []field {
	usual := sources.DefaultHealthCheck()
	return []field{
		define("health.interval", "", zero, "the time between two probes of an endpoint",
			func(c *Config) *time.Duration { return &c.Health.Interval }, pauses, usual.Interval),
		define("health.timeout", "", zero, "how long a probe may take, at most 10 times the interval; below 1.1s one lost "+
			"SYN fails it",
			func(c *Config) *time.Duration { return &c.Health.Timeout }, pauses, usual.Probe.Timeout),
		define("health.fall", "", zero, "bad results in a row that take an endpoint down",
			func(c *Config) *int { return &c.Health.Fall }, results, usual.Fall),
		define("health.rise", "", zero, "good results in a row that bring it back",
			func(c *Config) *int { return &c.Health.Rise }, results, usual.Rise),
		define("health.fastInterval", "", zero, "the interval after a result that differs, until the state is decided",
			func(c *Config) *time.Duration { return &c.Health.FastInterval }, pauses, usual.FastInterval),
		define("health.downInterval", "", zero, "the interval while an endpoint is down",
			func(c *Config) *time.Duration { return &c.Health.DownInterval }, pauses, usual.DownInterval),
		define("health.jitter", "", zero, "the part of an interval by which a probe comes earlier at most, 0 to 0.5",
			func(c *Config) *float64 { return &c.Health.Jitter }, fields.FloatIn(0, 0.5), usual.Jitter),
		define("health.onDown", "", zero, `"drain": an endpoint that goes down keeps its connections; "cut": they end`,
			func(c *Config) *sources.OnDown { return &c.Health.OnDown }, word(sources.DownDrain, sources.DownCut), usual.OnDown),
		define("health.onAllDown", "", zero, `with no endpoint up, "open": all are used; "closed": connections are refused`,
			func(c *Config) *sources.OnAllDown {
				return &c.Health.OnAllDown
			}, word(sources.AllDownOpen, sources.AllDownClosed), usual.OnAllDown),
		define("health.minHealthy", "", zero, `with fewer endpoints up than this number or percentage ("50%"), all that `+
			`are not drained get connections`,
			func(c *Config) *fields.Amount { return &c.Health.MinHealthy }, fields.AmountOf, fields.Amount{}),
		define("health.slowStart", "", zero, "how long an endpoint that comes up takes to get its full weight, under "+
			"schedulers that heed weights and move no clients",
			func(c *Config) *time.Duration { return &c.Health.SlowStart }, fields.DurationIn(0, 24*time.Hour), usual.SlowStart),

		define("health.maxProbesPerSecond", "", zero|restart, "probes of all services in a second; more are delayed",
			func(c *Config) *int { return &c.Health.MaxProbesPerSecond }, limit, 20000),
		define("health.maxInFlight", "", zero|restart, "probes at the same time",
			func(c *Config) *int { return &c.Health.MaxInFlight }, limit, 2000),
		define("health.execUser", "", zero|restart, execUserHelp,
			func(c *Config) *string { return &c.Health.ExecUser }, fields.StringOf(checkUser), sources.ExecUser),
		define("health.execDirs", "", zero|restart, execDirsHelp,
			func(c *Config) *[]string { return &c.Health.ExecDirs }, directories, sources.ExecDirs()),
		define("health.execMaxRunning", "", zero|restart, "such programs at the same time",
			func(c *Config) *int { return &c.Health.ExecMaxRunning }, limit, 8),
		define("health.massFailure", "", zero, `when more than half of everything fails at once, of three or more `+
			`services, "hold" the last states for a minute, or "believe" it`,
			func(c *Config) *string { return &c.Health.MassFailure }, word("hold", "believe"), "hold"),
	}
}

const (
	execDirsHelp = "the directories, owned by root, whose programs checks of type exec may run: whoever writes a " +
		"services file chooses a program " +
		`and its arguments; "/usr/lib/nagios/plugins" adds the plugins of Nagios`
	execUserHelp = `the user that runs the programs of checks of type exec, without access to svcproxy's state, control ` +
		`socket and secrets; ` +
		`where the packages have not made svcproxy-check, user id 65534 stands in for it; "": svcproxy's own user, so a ` +
		`program may do what ` +
		"svcproxy may; without CAP_SETUID, CAP_SETGID and CAP_KILL, which the packaged unit has, svcproxy runs no program " +
		"as another user, " +
		"and its check tells nothing"
)

const userName = `^([A-Za-z_][A-Za-z0-9_.-]{0,31}\$?)?$`

func checkUser(s string) error {
	if !matches(userName, s) {
		return fmt.Errorf("%q cannot be the name of a user", s)
	}
	return nil
}

// checkHealth checks the keys of table health that depend on each other.
func (d *decoder) checkHealth() {
	h := &d.config.Health
	if h.Timeout > 10*h.Interval {
		d.conflict("health.timeout", "health.interval", "must not be more than 10 times")
	}
	if h.ExecUser == "" {
		d.warn("health.execUser", `is "": programs of checks run as svcproxy's own user, and can change its state and give `+
			`it orders`)
	}
	if h.Timeout < sources.LostSYN && !d.refused["health.timeout"] {
		d.warn("health.timeout", "is shorter than 1.1s: one lost SYN fails a probe, as it is sent again after 1s")
	}
}
