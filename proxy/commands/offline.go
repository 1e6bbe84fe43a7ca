package commands

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/sources"
)

// offline is a command that works out itself what svcproxy would do. It reads the sources, and the kernel or
// the text of one.
type offline struct {
	local
	state string // file with the text of a kernel's state; "" reads the kernel
}

// wantAtStart is the kernel state that a svcproxy that starts now wants for a table.
func (o *offline) wantAtStart(s *daemon.Setup, t sources.Table, have *kernel.Observed) kernel.State {
	s.AsInKernel(have)
	kept, err := checker.ReadKept(s.Config.StateDir)
	if err != nil {
		o.warn(err.Error())
	}
	return s.WantOf(checker.AtStart(t, s.Health(), kept, have, time.Now()), have)
}

// useMode takes the mode of the running daemon where the configuration leaves it open. It was decided at the daemon's
// start, and by trying rules, which a plan does not do.
func (o *offline) useMode(ctx context.Context, s *daemon.Setup) {
	if o.state != "" || s.Config.Strict() {
		return
	}
	if st, err := (control.Client{Socket: daemon.Socket(s.Config.RuntimeDir)}).Status(ctx, false); err == nil {
		s.Config.UseMode(st.Daemon.Mode)
	}
}

// observe reads the kernel, or the text of one.
func (o *offline) observe(ctx context.Context, s *daemon.Setup) (kernel.Observed, error) {
	if o.state == "" {
		k, err := s.Open(ctx, s.Config.Names())
		if err != nil {
			return kernel.Observed{}, err
		}
		defer k.Close()
		if text := s.SteppedDown(); text != "" {
			o.warn(text)
		}
		if err := s.OwnsDevice(ctx, k, s.Config.Names()); err != nil {
			return kernel.Observed{}, err
		}
		return k.Read(ctx)
	}
	text, err := os.ReadFile(o.state)
	if err != nil {
		return kernel.Observed{}, fmt.Errorf("reading the kernel's state: %w", err)
	}
	have, err := kernel.ParseObserved(string(text))
	if err != nil {
		return kernel.Observed{}, fmt.Errorf("%s: %w", o.state, err)
	}
	have.Names, s.IPv6 = s.Config.Names(), true
	plan.KeepOwned(&have)
	if have.Node.Name == "" {
		have.Node.Name = s.Node()
	}
	return have, nil
}
