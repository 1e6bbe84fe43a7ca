package proxy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// Prober asks other hosts about VIPs, and tells them: kernel/host's.
type Prober interface {
	// Probe returns those claims, of one family, that another host answers for.
	Probe(ctx context.Context, claims []kernel.Claim) ([]kernel.Taken, error)
	// Announce tells the hosts on the links of claims, of one family, that their
	// VIPs are here.
	Announce(ctx context.Context, claims []kernel.Claim) error
}

// mostProbed is how many claims are asked about at once: their answers come within
// a second, and their VIPs are bound before the rest is asked.
const mostProbed = 100

// probeHolds is how long nobody's answer is good for. It outlasts a sync that
// fails and is tried again.
const probeHolds = 10 * time.Second

// handover is how long a VIP is left alone that has just gone from another link of
// this node: VRRP takes up to 4 s to give it to another host, which does not answer
// for it until then.
const handover = 5 * time.Second

// prober has what other hosts said of VIPs. It belongs to the loop's goroutine; the
// asking goes on beside it, so that no other service waits for answers.
type prober struct {
	ask     Prober
	asking  map[kernel.Claim]bool
	answers map[kernel.Claim]answer
	gone    map[string]time.Time // node addresses that went, since when
	came    chan []answer
	running sync.WaitGroup
}

func newProber(ask Prober) prober {
	return prober{
		ask: ask, asking: make(map[kernel.Claim]bool), answers: make(map[kernel.Claim]answer),
		gone: make(map[string]time.Time), came: make(chan []answer),
	}
}

// answer is what came of one claim.
type answer struct {
	claim kernel.Claim
	taken kernel.Taken // zero if nobody answered
	at    time.Time
	err   error // it could not be asked
}

// known writes what is known of claims into a reading.
func (p *prober) known(o *kernel.Observed, now time.Time) {
	o.Probed, o.Taken = nil, nil
	for c, a := range p.answers {
		switch {
		case a.taken != kernel.Taken{}:
			o.Taken = append(o.Taken, a.taken)
		case now.Sub(a.at) > probeHolds:
			delete(p.answers, c)
		default:
			o.Probed = append(o.Probed, c)
		}
	}
	slices.SortFunc(o.Probed, kernel.Claim.Compare)
	slices.SortFunc(o.Taken, func(a, b kernel.Taken) int { return a.Compare(b.Claim) })
}

// lost has VIPs that another hand unbound bound again unasked: they were this
// node's a moment ago.
func (p *prober) lost(was, is *kernel.Observed, claims []kernel.Claim, now time.Time) {
	for _, c := range claims {
		if was.IsLocal(c.Addr) && !is.IsLocal(c.Addr) {
			p.answers[c] = answer{claim: c, at: now}
		}
	}
}

// follow asks what a plan wants to know, and again, once in a period, about what
// is taken.
func (p *prober) follow(ctx context.Context, plan *kernel.Plan, now time.Time, period time.Duration) {
	claims := slices.Clone(plan.Probes)
	for _, t := range plan.Taken {
		if now.Sub(p.answers[t.Claim].at) >= period {
			claims = append(claims, t.Claim)
		}
	}
	for c, a := range p.answers {
		wanted := slices.ContainsFunc(plan.Taken, func(t kernel.Taken) bool { return t.Claim == c })
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
			case now.Sub(p.gone[c.Addr.String()]) < handover:
				later = append(later, c)
			default:
				soon = append(soon, c)
			}
		}
		p.start(ctx, soon, 0)
		p.start(ctx, later, handover)
	}
}

// start asks about claims beside the loop, some at a time.
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
		for some := range slices.Chunk(claims, mostProbed) {
			taken, err := p.ask.Probe(ctx, some)
			answers := make([]answer, len(some))
			for i, c := range some {
				answers[i] = answer{claim: c, at: time.Now(), err: err}
				if j := slices.IndexFunc(taken, func(t kernel.Taken) bool { return t.Claim == c }); j >= 0 {
					answers[i].taken = taken[j]
				}
			}
			select {
			case p.came <- answers:
			case <-ctx.Done():
				return
			}
		}
	})
}

// take keeps answers, and says what kept from asking: then a VIP is bound unasked,
// as without probing.
func (p *prober) take(answers []answer) (why []string) {
	for _, a := range answers {
		delete(p.asking, a.claim)
		p.answers[a.claim] = a
		if a.err != nil {
			why = []string{a.err.Error()}
		}
	}
	return why
}

// moved notes which addresses of the node went.
func (p *prober) moved(was, is []kernel.NodeAddr, now time.Time) {
	for _, a := range was {
		if !slices.ContainsFunc(is, func(b kernel.NodeAddr) bool { return b.Prefix.Addr() == a.Prefix.Addr() }) {
			p.gone[a.Prefix.Addr().String()] = now
		}
	}
	for a, since := range p.gone {
		if now.Sub(since) > handover {
			delete(p.gone, a)
		}
	}
}

// announce tells of VIPs that were made local just now.
func (p *prober) announce(ctx context.Context, claims []kernel.Claim, log *slog.Logger) {
	if p.ask == nil || len(claims) == 0 {
		return
	}
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		of := slices.DeleteFunc(slices.Clone(claims), func(c kernel.Claim) bool { return kernel.FamilyOf(c.Addr) != family })
		if len(of) == 0 {
			continue
		}
		p.running.Go(func() {
			if err := p.ask.Announce(ctx, of); err != nil && ctx.Err() == nil {
				log.Warn("neighbours learn of VIPs late", "err", err)
			}
		})
	}
}
