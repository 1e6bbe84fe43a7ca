package probe

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// defaultTimeout is used for a probe that has none.
const defaultTimeout = 2 * time.Second

// noAnswer is the detail of a udp probe that heard nothing, which is ok.
const noAnswer = "no answer"

// tooLate is the detail of a probe whose deadline this process has noticed too late.
const tooLate = "this process was late"

// cannotKill is the detail of a probe whose program goes on although it was killed.
const cannotKill = "the program cannot be killed"

// Meta is what programs of exec probes learn about the endpoint, besides its address.
type Meta struct {
	Service string
	Weight  int
}

// Prober sends probes. The zero value is ready to use, by any number of goroutines at once.
type Prober struct {
	// Credential is the user of exec probes; nil for the user that svcproxy runs as.
	Credential *syscall.Credential
	// ExecDirs are the directories that may have programs of exec probes. Others are not run.
	ExecDirs []string
	// Trace, if set, is told each step of a probe: connected, TLS established, sent or started, ended.
	Trace func(step string, after time.Duration)

	cas     caFiles
	answers [2]answers // to SYNs for VIPs, of IPv4 and of IPv6
}

// attempt is one probe that is being made.
type attempt struct {
	*sources.Probe
	ctx      context.Context
	prober   *Prober
	target   netip.AddrPort
	meta     Meta
	timeout  time.Duration
	deadline time.Time
}

// done tells Trace of a step.
func (a *attempt) done(step string) {
	if a.prober.Trace != nil {
		a.prober.Trace(step, a.elapsed())
	}
}

var probes = map[sources.CheckType]func(*attempt) Result{
	sources.CheckTCP: (*attempt).tcp, sources.CheckHTTP: (*attempt).http, sources.CheckHTTPS: (*attempt).https,
	sources.CheckTLS: (*attempt).tls, sources.CheckDNS: (*attempt).dns, sources.CheckGRPC: (*attempt).grpc,
	sources.CheckUDP: (*attempt).udp, sources.CheckPing: (*attempt).ping, sources.CheckExec: (*attempt).exec,
	sources.CheckAgent: (*attempt).agent,
}

func timeoutOf(p *sources.Probe) time.Duration {
	if p.Timeout <= 0 {
		return defaultTimeout
	}
	return p.Timeout
}

// Do probes target once and returns when its outcome is known, after what.Timeout at the latest. The port is
// target's: the caller has resolved what.Port and what.PortName. ctx ends the probe early, with a void result.
func (p *Prober) Do(ctx context.Context, what *sources.Probe, target netip.AddrPort, meta Meta) (r Result) {
	do := probes[what.Type]
	if do == nil {
		return result(Void, "unknown type "+string(what.Type))
	}
	a := p.attempt(ctx, what, target, meta)
	// A fault in the parser of an answer must not take the data plane's program with it.
	defer func() {
		if fault := recover(); fault != nil {
			r = result(Void, fmt.Sprint("internal error: ", fault))
		}
	}()
	if vip := what.Way.VIP(a.target.Addr()); vip.IsValid() {
		if r, ended := a.reach(vip); ended {
			return a.judge(r)
		}
	}
	return a.judge(do(&a))
}

// attempt returns a probe that starts now.
func (p *Prober) attempt(ctx context.Context, what *sources.Probe, target netip.AddrPort, meta Meta) attempt {
	timeout := timeoutOf(what)
	target = netip.AddrPortFrom(target.Addr().Unmap(), target.Port())
	return attempt{what, ctx, p, target, meta, timeout, time.Now().Add(timeout)}
}

// elapsed returns the time since the probe started.
func (a *attempt) elapsed() time.Duration { return a.timeout - time.Until(a.deadline) }

// judge returns the result of a probe that has ended with r: void if this process is to blame.
func (a *attempt) judge(r Result) Result {
	r.Duration = a.elapsed()
	silent := r.Outcome == OK && r.Detail == noAnswer
	if r.Outcome == OK && !silent {
		return r
	}
	if a.ctx.Err() != nil {
		return Result{Outcome: Void, Detail: "cancelled", Duration: r.Duration, unended: r.unended}
	}
	// The deadline was seen this late only because this process did not run. The answer may have come in time.
	if (silent || r.Outcome.timed()) && r.Duration > a.timeout+a.timeout/2 {
		return Result{Outcome: Void, Detail: tooLate, Duration: r.Duration, unended: r.unended}
	}
	return r
}
