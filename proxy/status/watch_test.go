package status_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// watched runs a Watch over these readings, one a second, and then ends it.
func watched(t *testing.T, view status.View, height int, readings ...any) (string, error) {
	var out bytes.Buffer
	err := watch(t, &out, nil, view, height, readings...)
	return out.String(), err
}

func watch(t *testing.T, out, errs io.Writer, view status.View, height int, readings ...any) (err error) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := status.Watch{
			Out:  out,
			Err:  errs,
			View: func() (status.View, int) { return view, height },
			Ask: func(context.Context) (status.Status, error) {
				if len(readings) == 0 {
					cancel()
					return status.Status{}, context.Canceled
				}
				now := readings[0]
				readings = readings[1:]
				if err, failed := now.(error); failed {
					return status.Status{}, err
				}
				st := now.(status.Status)
				st.Time = time.Now()
				return st, nil
			},
		}
		err = w.Run(ctx)
		cancel()
	})
	return err
}

func one(s status.Service) status.Status {
	return status.Status{Services: []status.Service{s}, Totals: status.Totals{Active: s.Active}}
}

func TestWatchOnAPipe(t *testing.T) {
	serving, busy := one(status.Service{Name: "web", State: status.Serving}), one(status.Service{Name: "web", State: status.Serving, Active: 7})
	empty := one(status.Service{Name: "web", State: status.NoBackends, Reason: "no endpoints"})
	out, err := watched(t, status.View{Service: "web", Format: status.Table}, 0,
		serving, serving, busy, empty, errors.New("gone"), errors.New("gone"), serving)
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "web: ") || strings.HasPrefix(line, "svcproxy: ") {
			states = append(states, strings.TrimSpace(line))
		}
	}
	if got, want := strings.Join(states, "; "), "web: serving; web: no backends: no endpoints; svcproxy: gone; web: serving"; got != want {
		t.Errorf("shown: %s\nwant: %s\n%s", got, want, out)
	}
}

// A program reads JSON alone from standard output, also while the daemon restarts.
func TestWatchOfJSON(t *testing.T) {
	st := one(status.Service{Name: "web", State: status.Serving})
	gone := &cli.Error{Code: cli.NoDaemon, Err: errors.New("gone")}
	var out, errs bytes.Buffer
	if err := watch(t, &out, &errs, status.View{Format: status.JSON}, 0, st, gone, gone, st); err != nil {
		t.Fatal(err)
	}
	read := 0
	for d := json.NewDecoder(&out); ; read++ {
		var st status.Status
		if err := d.Decode(&st); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if read != 2 || errs.String() != "svcproxy: gone\n" {
		t.Errorf("%d statuses, want 2; standard error: %q", read, errs.String())
	}
}

// Time alone prints nothing again: health has the time in its words.
func TestWatchOfHealth(t *testing.T) {
	checked := func(text string, state status.HealthState, probes uint64) status.Status {
		h := &status.EndpointHealth{State: state, Cause: "serves", Text: text, SourceWeight: 1, Last: &status.ProbeResult{Good: true, Time: time.Now()}}
		if state == "down" {
			h.Cause, h.Reason = "down", "refused"
		}
		st := one(status.Service{Name: "web", State: status.Serving, Health: &status.ServiceHealth{Checked: 1}, Endpoints: []status.Endpoint{{Health: h}}})
		st.Health = &status.Health{Targets: 1, Probes: status.Probes{Started: probes}}
		return st
	}
	out, err := watched(t, status.View{Service: "web", Format: status.Table}, 0,
		checked("up 1s", "up", 1), checked("up 2s", "up", 2), checked("down 1s: refused", "down", 3), checked("down 2s: refused", "down", 4))
	if n := strings.Count(out, "HEALTH"); err != nil || n != 2 || !strings.Contains(out, "down 1s: refused") {
		t.Errorf("%d outputs, %v:\n%s", n, err, out)
	}
}

func TestWatchOnATerminal(t *testing.T) {
	st := status.Status{}
	for range 50 {
		st.Services = append(st.Services, status.Service{Name: "web", State: status.Serving})
	}
	out, err := watched(t, status.View{Format: status.Table, Width: 40, Colours: true}, 10, st)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out, screen.Enter) || !strings.HasSuffix(out, screen.Leave) {
		t.Errorf("the terminal's own screen is not left and come back to: %q", out)
	}
	if n := strings.Count(out, "\n"); n != 9 || !strings.Contains(out, "more lines") {
		t.Errorf("%d line feeds on a terminal of 10 lines:\n%s", n, out)
	}
}

func TestWatchNeedsADaemon(t *testing.T) {
	gone := errors.New("gone")
	if out, err := watched(t, status.View{}, 0, gone); err != gone || out != "" {
		t.Errorf("%q, %v", out, err)
	}
}
