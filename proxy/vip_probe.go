package proxy

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// Prober asks other hosts about VIPs, and announces VIPs to them. host.Prober
// implements it.
type Prober interface {
	// Probe returns those claims, of one family, that another host answers for.
	Probe(ctx context.Context, claims []kernel.Claim) ([]kernel.Taken, error)
	// Announce tells the hosts on the links of claims, of one family, that their VIPs
	// are here.
	Announce(ctx context.Context, claims []kernel.Claim) error
}

// probeBatch is how many claims are asked for at once. Answers take up to a second,
// and the VIPs of a batch are bound before the next one is asked for.
const probeBatch = 100

// silenceLasts is how long a VIP counts as free after no host answered for it. It is
// longer than a sync that fails and is tried again.
const silenceLasts = 10 * time.Second

// handover is how long a VIP that has gone from another link of this node is not asked
// for. VRRP takes up to 4 s to give it to another host, which does not answer before.
const handover = 5 * time.Second

// prober keeps what other hosts answered. It belongs to the loop's goroutine. Probes
// run in goroutines of their own, so that other services need not wait for answers.
type prober struct {
	prober   Prober
	asking   map[kernel.Claim]bool
	answers  map[kernel.Claim]answer
	gone     map[netip.Addr]time.Time // when node addresses went away
	answered chan []answer
	running  sync.WaitGroup
}

func newProber(ask Prober) prober {
	return prober{
		prober: ask, asking: make(map[kernel.Claim]bool), answers: make(map[kernel.Claim]answer),
		gone: make(map[netip.Addr]time.Time), answered: make(chan []answer),
	}
}

// answer is the result of a probe of one claim.
type answer struct {
	claim kernel.Claim
	taken kernel.Taken // zero if no host answered
	at    time.Time
	err   error // the probe failed
}

// heard returns a time with what other hosts have answered by then. The next sync may have to wait for minGap.
func (p *prober) heard(now time.Time, minGap time.Duration) kernel.Now {
	o := kernel.Now{Time: now}
	for c, a := range p.answers {
		switch {
		case a.taken != kernel.Taken{}:
			o.Taken = append(o.Taken, a.taken)
		case now.Sub(a.at) > silenceLasts+minGap:
			delete(p.answers, c)
		default:
			o.Probed = append(o.Probed, c)
		}
	}
	kernel.SortFunc(o.Probed, kernel.Claim.Compare)
	kernel.SortFunc(o.Taken, func(a, b kernel.Taken) int { return a.Compare(b.Claim) })
	return o
}

// noteUnbound counts VIPs that another program has unbound as free: they were this
// node's a moment ago, so they are bound again without a probe.
func (p *prober) noteUnbound(was, is *kernel.Observed, claims []kernel.Claim, now time.Time) {
	for _, c := range claims {
		if was.IsLocal(c.Addr) && !is.IsLocal(c.Addr) {
			p.answers[c] = answer{claim: c, at: now}
		}
	}
}

// noteGone notes which addresses of the node went away.
func (p *prober) noteGone(was, is []kernel.NodeAddr, now time.Time) {
	for _, a := range was {
		if !slices.ContainsFunc(is, func(b kernel.NodeAddr) bool { return b.Prefix.Addr() == a.Prefix.Addr() }) {
			p.gone[a.Prefix.Addr()] = now
		}
	}
	for a, since := range p.gone {
		if now.Sub(since) > handover {
			delete(p.gone, a)
		}
	}
}

// ask probes the claims that a plan needs answers for. It probes those that another
// host has again, once in a period.
func (p *prober) ask(ctx context.Context, todo *kernel.Plan, now time.Time, period time.Duration) {
	claims := slices.Clone(todo.Probes)
	for _, t := range todo.Taken {
		if now.Sub(p.answers[t.Claim].at) >= period {
			claims = append(claims, t.Claim)
		}
	}
	for c, a := range p.answers {
		wanted := slices.ContainsFunc(todo.Taken, func(t kernel.Taken) bool { return t.Claim == c })
		if (a.taken != kernel.Taken{}) && !wanted {
			delete(p.answers, c)
		}
	}
	claims = slices.DeleteFunc(claims, func(c kernel.Claim) bool { return p.asking[c] })
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		var soon, later []kernel.Claim
		for _, c := range claims {
			switch {
			case kernel.FamilyOf(c.Addr) != family:
			case now.Sub(p.gone[c.Addr]) < handover:
				later = append(later, c)
			default:
				soon = append(soon, c)
			}
		}
		p.start(ctx, soon, 0)
		p.start(ctx, later, handover)
	}
}

// start probes claims in a goroutine, batch by batch.
func (p *prober) start(ctx context.Context, claims []kernel.Claim, after time.Duration) {
	if len(claims) == 0 {
		return
	}
	for _, c := range claims {
		p.asking[c] = true
	}
	p.running.Go(func() {
		if wait(ctx, after) != nil {
			return
		}
		for batch := range slices.Chunk(claims, probeBatch) {
			select {
			case p.answered <- p.probe(ctx, batch):
			case <-ctx.Done():
				return
			}
		}
	})
}

func (p *prober) probe(ctx context.Context, batch []kernel.Claim) []answer {
	taken, err := p.prober.Probe(ctx, batch)
	answers := make([]answer, len(batch))
	for i, c := range batch {
		answers[i] = answer{claim: c, at: time.Now(), err: err}
		if j := slices.IndexFunc(taken, func(t kernel.Taken) bool { return t.Claim == c }); j >= 0 {
			answers[i].taken = taken[j]
		}
	}
	return answers
}

// keep stores answers and returns why probes failed. A VIP whose probe failed is bound,
// as without a Prober.
func (p *prober) keep(answers []answer) (why []string) {
	for _, a := range answers {
		delete(p.asking, a.claim)
		p.answers[a.claim] = a
		if a.err != nil {
			why = []string{a.err.Error()}
		}
	}
	return why
}

// announce announces VIPs that were bound just now.
func (p *prober) announce(ctx context.Context, claims []kernel.Claim, log *slog.Logger) {
	if p.prober == nil || len(claims) == 0 {
		return
	}
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		of := slices.DeleteFunc(slices.Clone(claims), func(c kernel.Claim) bool { return kernel.FamilyOf(c.Addr) != family })
		if len(of) == 0 {
			continue
		}
		p.running.Go(func() {
			if err := p.prober.Announce(ctx, of); err != nil && ctx.Err() == nil {
				log.Warn("cannot tell neighbours of VIPs", "err", err)
			}
		})
	}
}
