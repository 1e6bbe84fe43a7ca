package sources

import "slices"

// Checks fills in a node's defaults in the health checks of tables. Equal checks become one value in memory, also those
// of different files and tables. The zero value is ready to use.
type Checks struct {
	defaults  HealthCheck
	scheduler string
	resolved  map[resolvable]*HealthCheck // of the last table
}

// resolvable is a check as a source has it, and whether slow start works under the service's scheduler.
type resolvable struct {
	check HealthCheck
	slow  bool
}

// OnNode returns the table with the defaults of HealthCheck.OnNode. scheduler is that of services that name none: a
// default for slow start does not count under schedulers that cannot do it. A table without health checks is returned as it is.
func (c *Checks) OnNode(t Table, defaults HealthCheck, scheduler string) Table {
	first := slices.IndexFunc(t.Services, func(s Service) bool { return s.HealthCheck != nil })
	if first < 0 {
		c.resolved = nil
		return t
	}
	if c.defaults != defaults || c.scheduler != scheduler {
		*c = Checks{defaults: defaults, scheduler: scheduler}
	}
	before := c.resolved
	c.resolved = make(map[resolvable]*HealthCheck, len(before))
	uncontested := t.isUncontested()
	t.Services = slices.Clone(t.Services)
	for i := first; i < len(t.Services); i++ {
		if s := &t.Services[i]; s.HealthCheck != nil {
			s.HealthCheck = c.resolve(s, before)
		}
	}
	if uncontested {
		t = t.Uncontested()
	}
	return t
}

// resolve returns the check of a service, in the same memory as an equal one of this table or the last.
func (c *Checks) resolve(s *Service, before map[resolvable]*HealthCheck) *HealthCheck {
	scheduler := s.Scheduler
	if scheduler == "" {
		scheduler = c.scheduler
	}
	key := resolvable{*s.HealthCheck, SlowStarts(scheduler)}
	known := c.resolved[key]
	if known == nil {
		if known = before[key]; known == nil {
			check := key.check.OnNode(c.defaults)
			if key.check.Unset.Has(HealthSlowStart) && !key.slow {
				check.SlowStart = 0
			}
			known = &check
		}
		c.resolved[key] = known
	}
	return known
}
