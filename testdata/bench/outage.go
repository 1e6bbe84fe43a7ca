package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Rows of an outage: one sample for each service, and one of the worst of them.
const (
	lostRow = "connections lost"
	worst   = ", most"
)

const (
	outageQuiet    = 3 * time.Second // without a lost connection: the outage is detected
	outagePatience = 3 * time.Minute // keepalived's defaults take up to 71 s
)

// A fault is a way in which a backend stops to serve.
type fault struct {
	name       string
	web        bool // only a request over HTTP shows it
	begin, end func(*webBackend) error
}

var faults = []fault{
	{name: "refused", begin: (*webBackend).close, end: (*webBackend).listen},
	{
		name:  "dropped",
		begin: func(w *webBackend) error { return w.drop(true) },
		end:   func(w *webBackend) error { return w.drop(false) },
	},
	{
		name: "answers 500", web: true,
		begin: func(w *webBackend) error { w.failing.Store(true); return nil },
		end:   func(w *webBackend) error { w.failing.Store(false); return nil },
	},
}

// outage has a program check the backends while clients open connections. One
// backend fails in one of three ways, at three sites at once, and comes back.
func outage(c healthChecker) func(*bench, *pass) error {
	return func(b *bench, p *pass) error {
		if p.counting {
			return nil // what a client sees is not counted
		}
		var sites []*site
		defer func() {
			for _, s := range sites {
				s.close()
			}
		}()
		for _, f := range faults {
			s, err := newSite(f)
			if s != nil {
				sites = append(sites, s)
			}
			if err == nil {
				s.stop, err = c.start(b, s)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		time.Sleep(c.settled)
		outcomes, errs := make([][]outcome, len(sites)), make([]error, len(sites))
		var going sync.WaitGroup
		for i, s := range sites {
			going.Go(func() { outcomes[i], errs[i] = s.suffer() })
		}
		going.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for i, s := range sites {
			p.outcomes(s.fault.name, outcomes[i])
		}
		return nil
	}
}

// An outcome is what the clients of one service saw of an outage.
type outcome struct {
	detection time.Duration // from the fault to the last new connection that was lost
	recovery  time.Duration // from its end to the first new connection to the backend
	lost      int
}

// suffer lets the first backend fail and come back.
func (s *site) suffer() ([]outcome, error) {
	var all []*visitors
	defer func() {
		for _, v := range all {
			v.end()
		}
	}()
	for _, vip := range s.vips {
		all = append(all, sendVisitors(s.lab.Client, vip))
	}
	if err := s.calm(all); err != nil {
		return nil, err
	}
	outcomes := make([]outcome, len(all))
	begin := time.Now()
	if err := s.fault.begin(s.webs[0]); err != nil {
		return nil, err
	}
	for i, v := range all {
		if err := outcomes[i].detect(v, begin); err != nil {
			return nil, err
		}
	}
	end := time.Now()
	if err := s.fault.end(s.webs[0]); err != nil {
		return nil, err
	}
	for i, v := range all {
		first, err := s.serves(v, end)
		if err != nil {
			return nil, err
		}
		outcomes[i].recovery = first.Sub(end)
	}
	return outcomes, nil
}

// calm waits until every service is served by the backend that is going to fail, and
// then that no connection is lost for a second.
func (s *site) calm(all []*visitors) error {
	for _, v := range all {
		if _, err := s.serves(v, time.Time{}); err != nil {
			return err
		}
	}
	start := time.Now()
	time.Sleep(time.Second)
	for _, v := range all {
		if n, reason := v.losses(start); n > 0 {
			return fmt.Errorf("%d connections were lost before the fault: %w", n, reason)
		}
	}
	return nil
}

// serves waits until the backend that fails has answered a connection of a service
// that was opened after a moment.
func (s *site) serves(v *visitors, after time.Time) (first time.Time, err error) {
	err = waitFor(outagePatience, func() (ok bool) {
		first, ok = v.servedBy(s.webs[0].host.Name, after)
		return ok
	})
	if err != nil {
		_, reason := v.losses(after)
		err = fmt.Errorf("%w: %s answers no connection to %v: %w", err, s.webs[0].host.Name, v.to, reason)
	}
	return first, err
}

// detect waits for the end of losses after a fault.
func (o *outcome) detect(v *visitors, begin time.Time) error {
	err := waitFor(outagePatience, func() bool { return time.Since(later(begin, v.lastLoss())) > outageQuiet })
	n, reason := v.losses(begin)
	if err != nil {
		return fmt.Errorf("connections are still lost: %w", reason)
	}
	if n > 0 {
		o.lost, o.detection = n, v.lastLoss().Sub(begin)
	}
	return nil
}

// waitFor asks every 10 ms until it is so.
func waitFor(limit time.Duration, so func() bool) error {
	for start := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > limit {
			return fmt.Errorf("not within %v", limit)
		}
	}
	return nil
}

// outcomes adds the rows of a fault: a sample for each service, and the worst.
func (p *pass) outcomes(fault string, all []outcome) {
	for _, row := range []struct {
		name, unit string
		of         func(outcome) int64
	}{
		{"detection", "ms", func(o outcome) int64 { return o.detection.Milliseconds() }},
		{"recovery", "ms", func(o outcome) int64 { return o.recovery.Milliseconds() }},
		{lostRow, "connections", func(o outcome) int64 { return int64(o.lost) }},
	} {
		var most int64
		for _, o := range all {
			p.number(fault+": "+row.name, row.of(o), row.unit)
			most = max(most, row.of(o))
		}
		p.number(fault+": "+row.name+worst, most, row.unit)
	}
}
