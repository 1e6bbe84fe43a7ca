package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/kernel/verify"
	"github.com/svcproxy/svcproxy/sources"
)

// sync brings the kernel to what the sources say. A failure is reported and
// tried again; an error is returned only when trying again cannot help.
func (p *Proxy) sync(ctx context.Context) error {
	now := time.Now()
	first := p.pace.lastSync.IsZero()
	t := p.in.take()
	p.tables, p.facts, p.silent, p.hold = t.tables, t.facts, t.silent, len(t.waiting) > 0 && !p.bare
	if !t.since.emitted.IsZero() {
		p.pace.changed = true
	}
	if t.asked != "" {
		p.asked, p.pace.lastCheck = t.asked, time.Time{}
	}
	// As of these tables: who has spoken by the end of the sync is not in it.
	r := Report{Start: now, Cause: p.cause(now), Waiting: t.waiting, Asked: t.asks}
	p.since = p.since.oldest(t.since)
	r.Seen, r.Changed = p.since.seen, p.since.emitted

	p.next.Delta = sources.Delta{}
	p.health.queued(now)
	end := p.begin(r)
	defer end()
	r.Err = p.program(ctx, &r)
	p.record(r.Plan.Ops)
	if r.Err != nil && ctx.Err() != nil {
		return nil // told to stop in the middle: that is no failure
	}
	var nothing *sources.RejectedError
	if errors.As(r.Err, &nothing) {
		return r.Err
	}
	p.health.settled(r.Err)
	r.Duration = time.Since(now)
	p.settle(now, r)
	p.failing.hear(p.Log, r)
	r.log(p.Log)
	end() // whoever is told of its end does not see it go on
	if r.Err == nil {
		p.remember()
	}
	p.publish(r)
	var missing *kernel.MissingError
	if first && errors.As(r.Err, &missing) {
		return r.Err
	}
	return nil
}

// record has it written down which virtual servers are ours, if that may have
// changed: not for endpoints.
func (p *Proxy) record(ops []kernel.Op) {
	if p.Remember == nil || !p.reread && !plan.ChangesOwned(p.have.Names, ops) {
		return
	}
	p.reread = false
	p.Remember(kernel.Record{Made: plan.Made(&p.have), Left: p.have.Record.Left})
}

// cause is why the sync that begins now was due.
func (p *Proxy) cause(now time.Time) Cause {
	_, check := p.pace.check(now)
	switch {
	case p.pace.lastSync.IsZero():
		return CauseStart
	case p.pace.changed:
		return CauseTable
	case p.pace.failures > 0:
		return CauseRetry
	case p.pace.answered:
		return CauseProbe
	case p.asked != "":
		return p.asked
	case check:
		return CausePeriod
	}
	return CauseDrain
}

// program reads, plans and applies.
func (p *Proxy) program(ctx context.Context, r *Report) error {
	was := p.have
	if err := p.observe(ctx, r); err != nil {
		return err
	}
	p.prober.moved(was.Node.Addrs, p.have.Node.Addrs, r.Start)
	p.prober.lost(&was, &p.have, p.next.Want.Policy.Claims, r.Start)
	p.prober.known(&p.have, r.Start)
	p.stages.Add(1)
	if err := p.look(r); err != nil {
		return err
	}
	merged := p.merge(r)
	var occupied []string
	if p.hold {
		occupied = occupiedSets(p.have.Entries)
	}
	p.stages.Add(1)
	frontends, want := p.Rules(merged, p.have.Node, p.hold, occupied)
	want.Policy.Probe = want.Policy.Probe && p.Prober != nil
	p.stages.Add(1)
	p.next.Node, p.next.Frontends, p.next.Want = p.have.Node, frontends, want
	r.Services, r.Virtuals, r.Reals = len(merged.Services), len(want.Virtuals), len(want.Reals)
	r.Bound, r.Routed = len(want.Addrs), len(want.Routes)

	var err error
	if r.Plan, err = p.plan(ctx, want); err != nil {
		return err
	}
	r.Planned, r.Steps = time.Now(), len(r.Plan.Ops)
	p.next.Drains = r.Plan.Drains
	barred, small := kernel.Barred(p.have.Firewall, want.Virtuals), kernel.SmallHash(want.Sysctls, p.have.Sysctls)
	p.next.Warnings, p.next.Barred = slices.Concat(barred, small, r.Plan.Warnings), len(barred)
	p.barred.hear(barred)
	p.small.hear(small)
	p.stages.Add(1)
	p.have.Drains, p.have.Record.Left = r.Plan.Drains, r.Plan.Left
	p.conflicts.hear(slices.Concat(texts(r.Plan.Conflicts), texts(r.Plan.Taken), r.Plan.Warnings))
	p.prober.follow(ctx, &r.Plan, r.Start, p.pace.period)
	return p.apply(ctx, want, r.Plan)
}

// apply carries a plan out and notes what is there then.
func (p *Proxy) apply(ctx context.Context, want kernel.State, todo kernel.Plan) (err error) {
	made := todo.Ops
	if !todo.Empty() {
		if making := plan.Making(&p.have, todo.Ops); making != nil && p.Remember != nil {
			// Now, so that it is written by the time they are there.
			p.Remember(kernel.Record{Made: making, Left: todo.Left})
		}
		if err = p.Kernel.Apply(ctx, todo); err != nil {
			made = kernel.Done(todo.Ops, err)
		}
	}
	p.prober.announce(ctx, plan.Claims(want.Policy, made), p.Log)
	if err != nil {
		p.have, _ = plan.Advance(p.have, made)
		p.known = false
		return err
	}
	p.have, p.known = plan.Applied(p.have, want, todo)
	return nil
}

// look judges the first reading of the kernel. Where nothing of ours is in it,
// all that is there later is of tables that were delivered: no plan is held back
// for a source that is silent. Where the sources have nothing either, and one of
// them says that it never had, there is nothing to run for.
func (p *Proxy) look(r *Report) error {
	if p.looked {
		return nil
	}
	p.looked = true
	if p.bare = !holdsOurs(&p.have); !p.bare {
		return nil
	}
	if err := p.in.nothing(); err != nil {
		return err
	}
	p.in.trust()
	// As of these tables: a source may have spoken while the kernel was read.
	p.hold, r.Waiting = false, p.silent
	return nil
}

// holdsOurs says whether a kernel has objects of ours.
func holdsOurs(have *kernel.Observed) bool {
	return len(have.Sets)+len(have.Chains)+len(have.Addrs)+len(have.Routes)+len(plan.Owned(have)) > 0
}

// observe makes p.have current: by what is known of the kernel, or, where a check is
// due, by finding that it is still so. Only where it is not, or nothing is known, the
// kernel is read: then all of it, so that what is planned never mixes what was read
// now with what was known before.
func (p *Proxy) observe(ctx context.Context, r *Report) error {
	part, due := p.pace.check(r.Start)
	if !p.known || p.pace.failures > 0 {
		return p.read(ctx, r)
	}
	if due {
		same, err := p.Kernel.Verify(ctx, &p.have, part)
		if err != nil {
			p.known = false
			return fmt.Errorf("checking the kernel: %w", err)
		}
		r.Checked, r.Full, r.Differed = true, part == verify.Everything, !same
	}
	if r.Differed {
		return p.read(ctx, r)
	}
	p.have.Clock, p.have.Fresh = r.Start, false
	return nil
}

// read makes p.have a new reading.
func (p *Proxy) read(ctx context.Context, r *Report) error {
	have, err := p.Kernel.Read(ctx)
	if err != nil {
		p.known = false
		return fmt.Errorf("reading the kernel: %w", err)
	}
	// What the kernel does not remember: what was ours at the last reading,
	// and since when real servers drain.
	have.Owned, have.Drains = plan.Owned(&p.have), p.have.Drains
	if have.Record.Left == nil {
		have.Record.Left = p.have.Record.Left
	}
	p.reread = true
	p.have, p.known = have, true
	r.Checked, r.Full = true, true
	return nil
}

// plan is Diff, with connections counted in this very round for the real
// servers that wait for theirs to end.
func (p *Proxy) plan(ctx context.Context, want kernel.State) (kernel.Plan, error) {
	todo := plan.Diff(want, p.have)
	if p.have.Fresh || todo.Draining == 0 || p.hold {
		return todo, nil
	}
	keys := make([]kernel.RealKey, len(todo.Drains))
	for i, d := range todo.Drains {
		keys[i] = d.Real
	}
	conns, err := p.Kernel.Conns(ctx, keys)
	if err != nil {
		p.known = false
		return kernel.Plan{}, fmt.Errorf("counting the connections of %d draining real servers: %w", len(keys), err)
	}
	p.have.SetConns(keys, conns)
	// Diff looks at the connections of those alone.
	p.have.Fresh = true
	todo = plan.Diff(want, p.have)
	p.have.Fresh = false
	return todo, nil
}

// settle notes what the next sync depends on.
func (p *Proxy) settle(now time.Time, r Report) {
	p.pace.lastSync, p.pace.changed, p.pace.answered, p.asked = now, false, false, ""
	p.pace.draining, p.pace.wake = r.Plan.Draining > 0, r.Plan.Wake
	if r.Err != nil {
		p.pace.failed(now)
		return
	}
	if r.Checked {
		p.pace.checked(now, r.Full, func(most int) []verify.Shard { return verify.Shards(&p.have.State, most) })
	}
	if r.Differed {
		p.pace.doubt()
	}
	if r.Full {
		p.pace.verified(r.Steps > 0)
	}
	p.pace.failures = 0
	p.since = times{}
}

// occupiedSets are the names of the sets that have entries.
func occupiedSets(entries []kernel.Entry) []string {
	var names []string
	for i, e := range entries {
		if i == 0 || entries[i-1].Set != e.Set {
			names = append(names, e.Set)
		}
	}
	return names
}
