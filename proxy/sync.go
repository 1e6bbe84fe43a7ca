package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/sources"
)

// sync brings the kernel to what the sources say. A failure is reported, and the loop
// tries again. sync returns an error only if that cannot help.
func (p *Proxy) sync(ctx context.Context) error {
	// A request is taken before the time: a sync whose Start is later than a request has
	// taken that request, see Await.
	p.pace.replan = p.pace.replan || p.requests.replans()
	now := time.Now()
	p.backlog.queued(now)
	return p.round(ctx, p.accept(now))
}

// round is a sync that a report has begun.
func (p *Proxy) round(ctx context.Context, r Report) error {
	now, first := r.Start, p.pace.lastSync.IsZero() || p.pace.more && p.next.Succeeded.IsZero() // of a load
	end := p.progress.begin(r.Causes.First(), now)
	defer end()
	r.Err = p.program(ctx, &r)
	p.recordOwned(r.Plan.Ops)
	p.next.Announced = announce.Confirm(p.next.Announced, p.reading.have.Announcements, r.Left > 0)
	if r.Err != nil && ctx.Err() != nil {
		return nil // stopped in the middle, which is not a failure
	}
	var nothing *sources.RejectedError
	if errors.As(r.Err, &nothing) {
		return r.Err
	}
	if r.Left == 0 && r.keepsUp() {
		p.backlog.applied()
	}
	r.Duration = time.Since(now)
	p.conclude(now, r)
	p.next.Unfinished = unfinished(&r, p.next.Announced)
	p.logs.failures.report(r)
	p.next.logChanges(p.Log, r.Causes)
	r.log(p.Log)
	end() // before the report, so that readers of it do not find the sync still running
	if r.carriedOut() {
		p.recordServed()
	}
	p.publish(r)
	var missing *kernel.MissingError
	if first && !r.keepsUp() && errors.As(r.Err, &missing) {
		return r.Err
	}
	return nil
}

// accept takes what is in the inbox and begins the report. The report is about these
// tables: a source that delivers during the sync still counts as waited for.
func (p *Proxy) accept(now time.Time) Report {
	p.input = p.in.take()
	p.next.Delta, p.next.Changes, p.next.Asker = sources.Delta{}, nil, ""
	if p.Asker != nil {
		p.next.Asker = p.Asker()
	}
	if !p.input.times.emitted.IsZero() {
		p.pace.changed = true
	}
	if p.input.check {
		p.asked, p.pace.lastCheck = p.asked|p.input.asked, time.Time{}
	}
	p.pending = p.pending.oldest(p.input.times)
	r := Report{
		Start: now, Causes: p.causes(now), Waiting: p.input.waiting, Asked: p.input.asks,
		Seen: p.pending.seen, Changed: p.pending.emitted,
	}
	if p.pace.checksRules(now) {
		r.By = p.in.takeWriters()
	}
	return r
}

// causes are why the sync that begins now was due.
func (p *Proxy) causes(now time.Time) CauseSet {
	_, check := p.pace.check(now)
	s := p.asked | p.pace.causes
	for _, c := range []struct {
		cause Cause
		is    bool
	}{
		{CauseStart, p.pace.lastSync.IsZero()},
		{CauseTable, p.pace.changed},
		{CauseRetry, p.pace.failures > 0},
		{CauseProbe, p.pace.answered},
		{CauseRules, p.pace.rulesDue(now)},
		{CauseHealth, p.pace.overlaid(now)},
		{CausePeriod, check && p.asked == 0 && !now.Before(p.pace.checkDue())},
	} {
		if c.is {
			s |= CausesOf(c.cause)
		}
	}
	if s == 0 {
		s = CausesOf(CauseDrain)
	}
	return s
}

// program reads, plans and applies.
func (p *Proxy) program(ctx context.Context, r *Report) error {
	if err := p.observe(ctx, r); err != nil {
		return p.unread(ctx, r, err)
	}
	p.progress.stage()
	if err := p.firstReading(r); err != nil {
		return err
	}
	want := p.want(r)
	part, then, err := p.plan(ctx, want, r)
	if err != nil {
		return err
	}
	r.Repairs = p.reading.repairs(r.Plan.Ops)
	r.Planned, r.Steps, r.Read = time.Now(), len(r.Plan.Ops), true
	p.warn(r, want)
	p.progress.stage()
	p.next.Drains = r.Plan.Drains
	p.prober.ask(ctx, &r.Plan, r.Start, p.pace.period)
	p.progress.load(p.load.begun-cmp.Or(p.next.Report.Left, p.load.begun), p.load.begun)
	err = p.apply(ctx, part, then, r)
	p.load.done(part, &p.reading.have, r, err)
	return err
}

// moment is when a sync began, and what other hosts have answered.
func (p *Proxy) moment(r *Report) kernel.Now { return p.prober.heard(r.Start, p.pace.minGap) }

// observe makes the reading current. It trusts a valid reading, or verifies a shard of
// it if a check is due. If that is due after a failure it reads all of the kernel.
func (p *Proxy) observe(ctx context.Context, r *Report) (err error) {
	was := p.reading.have
	switch shard, due := p.pace.check(r.Start); {
	case !p.reading.valid || due && p.pace.failures > 0 && shard == plan.Everything:
		err = p.reading.reread(ctx, r)
	case due:
		err = p.reading.verify(ctx, shard, r)
	default:
		p.reading.have.Fresh = false
	}
	if err != nil {
		return err
	}
	p.prober.noteGone(was.Node.Addrs, p.reading.have.Node.Addrs, r.Start)
	p.prober.noteUnbound(&was, &p.reading.have, p.next.Want.Policy.Claims, r.Start)
	return nil
}

// unread carries out what cannot wait although the kernel could not be read, by what the last reading and the ops since
// say: no traffic to an endpoint that is down or drained, no announcement of a VIP that is not served. A single tool
// that does not run may be all that is wrong, for hours. In mode iptables that tool has the endpoints, too, so only
// announcements change. It returns why the kernel could not be read.
func (p *Proxy) unread(ctx context.Context, r *Report, why error) error {
	if !p.judged || ctx.Err() != nil {
		return why
	}
	p.reading.have.Fresh = false
	planned, _ := plan.Diff(p.want(r), p.reading.have, p.reading.memory, p.moment(r))
	todo := plan.Unread(planned, p.reading.memory.Drains)
	r.Planned = time.Now()
	p.progress.stage()
	p.next.Drains = todo.Drains
	var err error
	if r.Plan.Ops, err = p.reading.applyUnread(ctx, todo); err != nil {
		why = fmt.Errorf("%w; and with the last reading: %v", why, err) // no ApplyError: all else may be wrong, too
	}
	r.Steps = len(r.Plan.Ops)
	return why
}

// firstReading judges the first reading of the kernel. If nothing in it is ours, then
// later nothing can be ours that was not in a delivered table, so no plan has to wait
// for the other sources. If the sources have nothing either, and one of them says that
// it never had, there is nothing to run for: that is the error.
func (p *Proxy) firstReading(r *Report) error {
	if p.judged {
		return nil
	}
	p.judged = true
	if p.merger.NoneBefore = !p.reading.ownsAny(); !p.merger.NoneBefore {
		return nil
	}
	if err := p.in.nothing(); err != nil {
		return err
	}
	p.in.trust()
	// A source may have delivered while the kernel was read: the report is about the
	// tables that were taken.
	r.Waiting = p.input.noneGiven
	return nil
}

// want returns the wanted state of the kernel.
func (p *Proxy) want(r *Report) kernel.State {
	merged := p.merge(r)
	if p.Announcer != nil {
		merged = p.Announcer.Keep(merged, &p.reading.have)
	}
	merged = p.overlay(merged)
	changed := !p.next.Sourced && len(merged.Delta.Changes) > 0
	var occupied []string
	if merged.Keeps {
		occupied = p.reading.occupied()
	}
	p.progress.stage()
	node := p.reading.have.Node
	frontends, want := p.Rules(merged, node, occupied)
	want.Policy.Probe = want.Policy.Probe && p.Prober != nil
	p.next.Announced = nil
	if p.Announcer != nil {
		d, wake := p.Announcer.Announce(frontends, &want, &p.reading.have, p.moment(r))
		changed = changed || !slices.Equal(d.Routes, p.next.Want.Announcements)
		want.Announcements, p.next.Announced = d.Routes, d.VIPs
		p.pace.wakes(wake)
	}
	if changed {
		r.Causes |= CausesOf(CauseHealth)
	}
	p.progress.stage()
	p.next.Node, p.next.Frontends, p.next.Want = node, frontends, want
	r.Services = merged.Services.Len()
	r.Virtuals, r.Reals = frontends.Count()
	r.Bound, r.Routed = len(want.Addrs), len(want.Routes)
	return want
}

// warn logs and publishes what keeps the wanted state from serving clients.
func (p *Proxy) warn(r *Report, want kernel.State) {
	barred := p.firewall.blocked(&p.reading.have, &want, p.next.Frontends)
	small := kernel.SmallHash(want.Sysctls, p.reading.have.Sysctls)
	p.next.Warnings, p.next.Barred = slices.Concat(barred, small, r.Plan.Warnings), len(barred)
	p.logs.firewall.report(barred)
	p.logs.small.report(small)
	p.logs.conflicts.report(slices.Concat(texts(r.Plan.Conflicts), texts(r.Plan.Taken), r.Plan.Warnings))
}

// apply applies a plan. New virtual servers are recorded as ours before it, so that
// the record is complete by the time they exist.
func (p *Proxy) apply(ctx context.Context, want kernel.State, then kernel.Memory, r *Report) error {
	have, owned := &p.reading.have, p.reading.memory.Owned
	if making := plan.Making(have, owned, r.Plan.Ops); making != nil && p.Remember != nil {
		p.Remember(kernel.Record{Made: making, Digests: plan.Digests(have, owned), Left: r.Plan.Left})
	}
	made, err := p.reading.apply(ctx, want, r.Plan, then, r.Full)
	r.Repairs = among(r.Repairs, made)
	p.prober.announce(ctx, plan.Claims(want.Policy, made), p.Log)
	return err
}

// among returns the ops that others has, too.
func among(ops, others []kernel.Op) []kernel.Op {
	if len(ops) == 0 {
		return nil
	}
	is := make(map[kernel.Op]bool, len(others))
	for _, op := range others {
		is[op] = true
	}
	return slices.DeleteFunc(ops, func(op kernel.Op) bool { return !is[op] })
}

// recordOwned records which virtual servers are ours, if ops or a new reading may have
// changed that. Changes of endpoints do not, unless these are not masqueraded.
func (p *Proxy) recordOwned(ops []kernel.Op) {
	have, memory := &p.reading.have, &p.reading.memory
	if p.Remember == nil || !p.reading.unrecorded && !plan.ChangesOwned(have.Names, ops) {
		return
	}
	p.reading.unrecorded = false
	p.Remember(kernel.Record{
		Made: plan.Made(have, memory.Owned), Digests: plan.Digests(have, memory.Owned), Left: memory.Left,
	})
}

// conclude notes what the time of the next sync depends on.
func (p *Proxy) conclude(now time.Time, r Report) {
	p.pace.lastSync, p.pace.changed, p.pace.answered, p.pace.replan, p.asked = now, false, false, false, 0
	loaded := p.pace.more && r.Left == 0 && r.Err == nil
	p.pace.draining, p.pace.wake, p.pace.more, p.pace.causes = r.Plan.Draining > 0, r.Plan.Wake, r.Left > 0, 0
	if r.Left > 0 {
		p.pace.causes = r.Causes
	}
	p.pace.checkedRules(now, &r)
	if r.Err != nil {
		if r.Full || !p.reading.valid { // else only ops failed that had failed before: they keep their pace
			p.pace.failed(now)
		}
		return
	}
	if r.Checked {
		p.pace.checked(now, r.Full, func(most int) []plan.Shard { return plan.Shards(&p.reading.have.State, most) })
	}
	if loaded { // the last check saw little of it
		p.pace.shards, p.pace.next = plan.Shards(&p.reading.have.State, p.pace.mostShards()), 0
	}
	if r.Differed {
		p.pace.checkWhole()
	}
	if r.Full {
		p.pace.verified(r.Steps > 0)
	}
	if r.Left == 0 {
		p.pace.failures = 0
		p.pending = times{}
	}
}
