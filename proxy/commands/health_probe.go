package commands

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// probed is one probe in JSON. Fields are only ever added.
type probed struct {
	Service string      `json:"service"`
	Port    string      `json:"port,omitempty"`
	Address string      `json:"address"` // of the endpoint
	Type    string      `json:"type"`
	To      string      `json:"to"`
	Steps   []probeStep `json:"steps"`
	Good    bool        `json:"good"`
	Result  string      `json:"result"` // "ok", "refused", "status 503"
	Seconds float64     `json:"seconds"`
	Expires *time.Time  `json:"certificateExpires,omitempty"`
}

type probeStep struct {
	Step    string  `json:"step"`
	Seconds float64 `json:"seconds"` // since the start of the probe
}

// probe sends one probe to each port of an endpoint.
func (c *healthCommand) probe(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return cli.Errorf(cli.Usage, "", "health probe wants one SERVICE/ENDPOINT, have %s", cli.Given(args))
	}
	of, err := control.ParseTarget(args[0], "")
	if err == nil && (of.Service == "" || !of.Addr.IsValid()) {
		err = fmt.Errorf("%q is not SERVICE/ADDRESS or SERVICE/ADDRESS:PORT", args[0])
	}
	if err != nil {
		return &cli.Error{Code: cli.Usage, Err: err}
	}
	list, err := c.probesOf(ctx, of)
	if err != nil {
		return err
	}
	prober, err := c.prober(ctx, list)
	if err != nil {
		return err
	}
	answers, bad := []probed{}, 0
	for _, p := range list {
		a := c.probeOnce(ctx, p, prober)
		if !a.Good {
			bad++
		}
		answers = append(answers, a)
	}
	if c.output == "json" {
		err = c.encode(answers)
	}
	if err == nil && bad > 0 {
		return &cli.Error{Code: cli.Failed}
	}
	return err
}

// probesOf asks the daemon how an endpoint is probed. Ports that share a probe have one.
func (c *healthCommand) probesOf(ctx context.Context, of health.Selector) ([]control.Probe, error) {
	got, err := c.client().Probes(ctx, of)
	switch {
	case err != nil:
		return nil, err
	case got.Version != c.Version:
		return nil, fmt.Errorf("svcproxy %s is running and this is %s: restart it", got.Version, c.Version)
	case len(got.Probes) == 0:
		return nil, cli.Errorf(cli.Failed, "svcproxy status "+of.Service+" lists its endpoints",
			"no service has the endpoint %s", of)
	}
	type sent struct {
		sources.Probe
		to string
	}
	seen, list := map[sent]bool{}, []control.Probe{}
	for _, p := range got.Probes {
		key := sent{p.Probe(), p.To.String()}
		if p.Sent.Type != "" && !seen[key] {
			seen[key] = true
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no health check", of)
	}
	return list, nil
}

// prober sends probes as the daemon does. The user of exec probes is that of the configuration, else the
// daemon's. Root must not run a program because a daemon of another user says so.
func (c *healthCommand) prober(ctx context.Context, list []control.Probe) (*probe.Prober, error) {
	loaded, _ := config.Read(c.config)
	p := &probe.Prober{ExecDirs: loaded.Config.Health.ExecDirs}
	exec := false
	for _, p := range list {
		exec = exec || p.Sent.Type == sources.CheckExec
	}
	if !exec || os.Geteuid() != 0 {
		return p, nil
	}
	var err error
	if p.Credential, err = checker.Credential(loaded.Config.Health.ExecUser); p.Credential != nil || err != nil {
		return p, err
	}
	owner, err := c.client().Owner(ctx)
	if err != nil {
		return nil, err
	}
	p.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	return p, nil
}

// probeOnce sends one probe. As text, it prints the steps as they are done.
func (c *healthCommand) probeOnce(ctx context.Context, p control.Probe, prober *probe.Prober) probed {
	a := probed{Service: p.Service, Port: p.Port, Address: p.Address.String(), Type: string(p.Sent.Type),
		To: p.To.String(), Steps: []probeStep{}}
	text := c.output != "json"
	if p.To.Port() == 0 {
		a.To = p.To.Addr().String()
	}
	if text {
		fmt.Fprintf(c.Out, "%s %s: %s %s\n", a.Service, a.Address, a.Type, a.To)
	}
	prober.Trace = func(step string, after time.Duration) {
		a.Steps = append(a.Steps, probeStep{step, after.Seconds()})
		if text {
			fmt.Fprintf(c.Out, "  %-16s %s\n", step, rounded(after))
		}
	}
	what := p.Probe()
	r := prober.Do(ctx, &what, p.To, probe.Meta{Service: p.Service, Weight: int(p.Weight)})
	a.Good, a.Result, a.Seconds = r.Outcome == probe.OK, r.String(), r.Duration.Seconds()
	if !r.Expires.IsZero() {
		expires := r.Expires.UTC()
		a.Expires = &expires
	}
	if text {
		c.printResult(r)
	}
	return a
}

func (c *healthCommand) printResult(r probe.Result) {
	verdict := "bad: " + r.String()
	switch {
	case r.Outcome == probe.OK:
		verdict = r.String()
	case r.Void():
		verdict = "no result, by a fault of this node: " + r.Detail
	}
	fmt.Fprintf(c.Out, "%s, after %s\n", verdict, rounded(r.Duration))
	if !r.Expires.IsZero() {
		fmt.Fprintf(c.Out, "its certificate expires %s\n", r.Expires.UTC().Format(time.DateOnly))
	}
}

// rounded returns a duration to 10 µs.
func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
