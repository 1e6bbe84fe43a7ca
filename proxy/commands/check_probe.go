package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/dns"
)

// maxProbing bounds the probes of check --probe at the same time.
const maxProbing = 100

// probeAll probes each target of a table once. It returns how many there are, and a problem for each port of
// an endpoint whose probe is not good.
func (c *checkCommand) probeAll(ctx context.Context, s daemon.Setup, table sources.Table) (int, error) {
	table, left := dns.Once(ctx, s.DNS(), table)
	c.named(left)
	settings := s.Health()
	table = new(sources.Checks).OnNode(table, settings.Defaults, settings.Scheduler)
	targets := health.Targets(table)
	user, err := c.execUser(s)
	if err != nil {
		return 0, err
	}
	var (
		running sync.WaitGroup
		done    atomic.Int64
		prober  = probe.Prober{Credential: user, ExecDirs: s.Config.Health.ExecDirs}
		results = make([]probe.Result, len(targets))
		room    = make(chan struct{}, maxProbing)
		execs   = make(chan struct{}, settings.Limits.Exec)
	)
	stop := c.progress(&done, len(targets))
	for i := range targets {
		to := room
		if targets[i].Probe.Value().Type == sources.CheckExec {
			to = execs
		}
		to <- struct{}{}
		running.Go(func() {
			results[i] = probeTarget(ctx, &prober, table, &targets[i])
			done.Add(1)
			<-to
		})
	}
	running.Wait()
	stop()
	if ctx.Err() != nil {
		return len(targets), ctx.Err()
	}
	return len(targets), failures(table, targets, results)
}

// probeTarget probes a target as the daemon would for its first service.
func probeTarget(ctx context.Context, p *probe.Prober, table sources.Table, t *health.Target) probe.Result {
	first := t.Users[0]
	s := table.Services.At(int(first.Service))
	return p.Do(ctx, &s.HealthCheck.Probe, t.Addr, probe.Meta{Service: s.DisplayName(),
		Weight: int(s.Endpoints[first.Endpoint].Weight)})
}

// failures returns a problem for each port of an endpoint whose probe is not good, nil if there is none.
func failures(table sources.Table, targets []health.Target, results []probe.Result) error {
	var problems []sources.Problem
	for i, r := range results {
		if r.Outcome == probe.OK {
			continue
		}
		for _, u := range targets[i].Users {
			s := table.Services.At(int(u.Service))
			e := &s.Endpoints[u.Endpoint]
			problems = append(problems, sources.Problem{
				Service: s.DisplayName(), Origin: s.Origin,
				Message: fmt.Sprintf("endpoint %s port %d: probe %s: %s", sources.Place(e.Name.Text(), e.Addr.String()),
					e.Ports[u.Port].Port, targets[i].Key, r),
			})
		}
	}
	if problems == nil {
		return nil
	}
	sources.SortProblems(problems)
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return &cli.Error{Code: cli.Failed, Err: errors.Join(errs...)}
}

// execUser is the user of exec probes: that of the configuration, else the one whom stateDir belongs to, as that is the
// daemon's.
func (c *checkCommand) execUser(s daemon.Setup) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if user, err := checker.Credential(s.Config.Health.ExecUser); user != nil || err != nil {
		return user, err
	}
	d, err := statefile.Open(s.Config.StateDir)
	if err != nil {
		return nil, nil // svcproxy has not run here
	}
	defer d.Close()
	uid, gid, err := d.Owner()
	if err != nil || uid == 0 {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// progress prints how many probes are done, every few seconds, until the returned function is called.
func (c *checkCommand) progress(done *atomic.Int64, all int) (stop func()) {
	end := make(chan struct{})
	var printing sync.WaitGroup
	printing.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				fmt.Fprintf(c.Err, "svcproxy: probed %d of %d\n", done.Load(), all)
			}
		}
	})
	return func() {
		close(end)
		printing.Wait()
	}
}
