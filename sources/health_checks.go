package sources

// Checks fills in a node's defaults in the health checks of tables. Equal checks become one value in memory, also those
// of different files and tables. The zero value is ready to use.
type Checks struct {
	defaults  HealthCheck
	scheduler string
	resolved  map[resolvable]*HealthCheck // of the last table
	last, out Table                       // the last table, and what OnNode made of it
}

// resolvable is a check as a source has it, whether slow start works under the service's scheduler, and the way of its
// probes.
type resolvable struct {
	check HealthCheck
	slow  bool
	way   Way
}

// OnNode returns the table with the defaults of HealthCheck.OnNode. scheduler is that of services that name
// none: a default for slow start does not count under schedulers that cannot do it. The Way of defaults is
// the node's. A table without health checks is returned as it is.
func (c *Checks) OnNode(t Table, defaults HealthCheck, scheduler string) Table {
	last := t
	if d, ok := t.knownSince(c.last); ok && d.OnlyEndpoints() && c.defaults == defaults && c.scheduler == scheduler {
		t = c.again(t, d)
	} else {
		t = c.onNode(t, defaults, scheduler)
	}
	c.last, c.out = last, t
	return t
}

// again is OnNode for a table that differs from the last one in endpoints alone: its services have the same checks.
func (c *Checks) again(t Table, d Delta) Table {
	if c.last.Services.Same(c.out.Services) { // there are no checks
		return t
	}
	uncontested := t.isUncontested()
	last := t.Services
	t.Services = c.out.Services.With(d.Touched(last.Len()), func(i int) Service {
		s := *last.At(i)
		s.HealthCheck = c.out.Services.At(i).HealthCheck
		return s
	})
	if uncontested {
		t = t.Uncontested()
	}
	return t.After(c.out, d)
}

func (c *Checks) onNode(t Table, defaults HealthCheck, scheduler string) Table {
	if c.defaults != defaults || c.scheduler != scheduler {
		*c = Checks{defaults: defaults, scheduler: scheduler}
	}
	first := 0
	for first < t.Services.Len() && t.Services.At(first).HealthCheck == nil {
		first++
	}
	if first == t.Services.Len() {
		c.resolved = nil
		return t
	}
	before := c.resolved
	c.resolved = make(map[resolvable]*HealthCheck, len(before))
	known := map[given]*HealthCheck{} // the services of a file share their checks, and a pointer is hashed faster
	uncontested := t.isUncontested()
	t.Services = ServicesOf(t.Services.Slice()...)
	for i := first; i < t.Services.Len(); i++ {
		s := t.Services.At(i)
		if s.HealthCheck == nil {
			continue
		}
		own := given{s.HealthCheck, SlowStarts(s.SchedulerOn(scheduler)), s.way(defaults.Probe.Way)}
		if known[own] == nil {
			known[own] = c.resolve(resolvable{*own.check, own.slow, own.way}, before)
		}
		s.HealthCheck = known[own]
	}
	if uncontested {
		t = t.Uncontested()
	}
	return t
}

// given is a check in the memory of its source.
type given struct {
	check *HealthCheck
	slow  bool
	way   Way
}

// resolve returns a check, in the same memory as an equal one of this table or the last.
func (c *Checks) resolve(key resolvable, before map[resolvable]*HealthCheck) *HealthCheck {
	known := c.resolved[key]
	if known == nil {
		if known = before[key]; known == nil {
			check := key.check.OnNode(c.defaults)
			if key.check.Unset.Has(HealthSlowStart) && !key.slow {
				check.SlowStart = 0
			}
			check.Probe.Way = key.way
			known = &check
		}
		c.resolved[key] = known
	}
	return known
}
