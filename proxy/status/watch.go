package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// watchPeriod is the time between two statuses.
const watchPeriod = time.Second

// Watch shows a status again and again. A terminal shows it in place. Otherwise
// Watch prints it whenever something changed except times and counters. If the
// daemon does not answer at first, that is an error; if it stops answering later,
// Watch shows that.
type Watch struct {
	Out io.Writer
	// Err gets the line of a daemon that does not answer, if JSON goes to a pipe. Otherwise Out does.
	Err io.Writer
	Ask func(context.Context) (Status, error)
	// View is called before each output, since the size of a terminal can change. If
	// Out is not a terminal, height is 0.
	View func() (v View, height int)
	// Print writes a status; nil is the function Print.
	Print func(io.Writer, Status, View) error
}

// Run shows the status until ctx ends; then it returns nil.
func (w Watch) Run(ctx context.Context) error {
	st, err := w.Ask(ctx)
	if err != nil {
		return err
	}
	view, height := w.View()
	if height > 0 {
		io.WriteString(w.Out, screen.Enter)
		defer io.WriteString(w.Out, screen.Leave)
	}
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for last := ""; ; {
		if last, err = w.show(st, err, view, height, last); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if st, err = w.Ask(ctx); ctx.Err() != nil {
			return nil
		}
		view, height = w.View()
	}
}

// show shows a status, or why there is none, unless it equals last. It returns the
// text to compare next time.
func (w Watch) show(st Status, away error, v View, height int, last string) (string, error) {
	if height > 0 {
		text, err := w.text(st, away, v)
		if err == nil && text != last {
			_, err = io.WriteString(w.Out, screen.InPlace(text, height))
		}
		return text, err
	}
	same, err := w.text(st.still(), away, v)
	if err != nil || same == last {
		return same, err
	}
	text, err := w.text(st, away, v)
	if err != nil {
		return same, err
	}
	if v.Format == JSON && away != nil {
		_, err = io.WriteString(w.Err, text)
		return same, err
	}
	if last != "" && v.Format != JSON {
		text = "\n" + text
	}
	_, err = io.WriteString(w.Out, text)
	return same, err
}

func (w Watch) text(st Status, away error, v View) (string, error) {
	if away != nil {
		return fmt.Sprintf("svcproxy: %v\n", away), nil
	}
	var b bytes.Buffer
	print := w.Print
	if print == nil {
		print = Print
	}
	err := print(&b, st, v)
	return b.String(), err
}

// still is the status without what changes all the time: times and counters.
func (s Status) still() Status {
	s.Time, s.Daemon.Started = time.Time{}, time.Time{}
	s.Sync.Cause, s.Sync.Start, s.Sync.Seconds, s.Sync.Succeeded = "-", time.Time{}, 0, time.Time{}
	if r := s.Sync.Running; r != nil && r.Seconds < 2 { // short syncs come and go
		s.Sync.Running = nil
	}
	s.Health = s.Health.still()
	s.Conntrack, s.Totals.Active, s.Totals.Inactive, s.Totals.Traffic = nil, 0, 0, Traffic{}
	services := make([]Service, len(s.Services))
	for i, svc := range s.Services {
		svc.Active, svc.Inactive, svc.Traffic = 0, 0, Traffic{}
		svc.Virtuals, svc.Endpoints = slices.Clone(svc.Virtuals), slices.Clone(svc.Endpoints)
		for j := range svc.Virtuals {
			svc.Virtuals[j].Traffic = Traffic{}
		}
		for j := range svc.Endpoints {
			svc.Endpoints[j].still()
		}
		services[i] = svc
	}
	s.Services, s.Drains = services, slices.Clone(s.Drains)
	for i := range s.Drains {
		s.Drains[i].still()
	}
	return s
}

func (e *Endpoint) still() {
	e.Active, e.Inactive, e.Traffic, e.Health = 0, 0, nil, e.Health.still()
}
