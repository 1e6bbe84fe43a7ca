package status_test

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// probes are health checks whose results a script gives. They decide as the checker does.
type probes struct {
	mu        sync.Mutex
	checks    sources.Checks
	board     health.Board
	overrides health.Overrides
	table     sources.Table // with the defaults of the node
	served    health.Overlaid
	probes    health.Probes
}

func (p *probes) Overlay(m sources.Merged, _ *kernel.Observed) (sources.Merged, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.served.Table
	p.table = p.checks.OnNode(m.Table, sources.DefaultHealthCheck(), "rr")
	p.board.SetTargets(health.Targets(p.table), nil, time.Now())
	p.overrides, _ = p.overrides.Prune(p.table, time.Now())
	p.served = health.Overlay(p.table, health.Known{Verdicts: p.board.Verdicts(), Overrides: p.overrides}, time.Now())
	m.Table, m.Delta = p.served.Table, sources.Compare(before, p.served.Table)
	return m, p.served.Wake
}

func (p *probes) view() health.View {
	p.mu.Lock()
	defer p.mu.Unlock()
	return health.View{
		Now: time.Now(), Known: health.Known{Verdicts: p.board.Verdicts(), Overrides: p.overrides},
		Table: p.table, Unusual: p.served.Unusual, Blind: p.board.Blind(), Holding: p.board.Holding(), Probes: p.probes,
	}
}

func (p *probes) users(keys ...health.Key) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.board.ServicesOf(p.table, keys...)
}

// probe gives a result of a target as often as it takes to change its state: "ok", "void", or a reason. With
// "expires=DURATION" the endpoint shows a certificate, and "warning: TEXT" ends the words of a good result.
func (s *stage) probe(address string, words []string) {
	r := health.Result{Took: 3 * time.Millisecond, Good: words[0] == "ok", Void: words[0] == "void"}
	if _, warning, ok := strings.Cut(strings.Join(words, " "), "warning: "); ok {
		r.Warning, words = warning, words[:1]
	}
	for _, w := range words {
		if after, ok := strings.CutPrefix(w, "expires="); ok {
			d, err := time.ParseDuration(after)
			s.check(err)
			r.Expires = time.Now().Add(d)
		} else if !r.Good {
			r.Reason += " " + w
		}
	}
	r.Reason = strings.TrimSpace(r.Reason)
	addr := netip.MustParseAddrPort(address)
	var events []health.Event
	s.probes.mu.Lock()
	for key := range s.probes.board.Verdicts().Of {
		for range 3 {
			if r.At = time.Now(); key.Addr == addr {
				events = append(events, s.probes.board.Record(key, r)...)
				time.Sleep(500 * time.Millisecond)
			}
		}
	}
	s.probes.mu.Unlock()
	s.noticed(events)
}

// order gives an order: TARGET VERB [WEIGHT] [WHY...].
func (s *stage) order(words []string) {
	target, err := health.ParseSelector(words[0])
	s.check(err)
	o := health.Override{Selector: target, Verb: health.Verb(words[1]), Made: time.Now(), By: "root"}
	words = words[2:]
	if o.Verb == health.Reweigh {
		o.Weight, err = health.ParseWeight(words[0])
		s.check(err)
		words = words[1:]
	}
	o.Why = strings.Join(words, " ")
	s.probes.mu.Lock()
	s.probes.overrides, err = s.probes.overrides.Add(o)
	s.probes.mu.Unlock()
	s.check(err)
	s.noticed([]health.Event{{Kind: health.Ordered, At: o.Made, Order: o}})
}

// tick tells the board the time.
func (s *stage) tick() {
	s.probes.mu.Lock()
	events := s.probes.board.Tick(time.Now())
	s.probes.mu.Unlock()
	if len(events) > 0 {
		s.noticed(events)
	}
}

// blind says why the checker is blind, or that it is not.
func (s *stage) blind(why string) {
	s.probes.mu.Lock()
	var events []health.Event
	for ago := 4 * time.Second; ago >= 0; ago -= 2 * time.Second {
		if why == "" && ago > 0 {
			continue
		}
		r := health.Result{Good: why == "", Void: why != "", Reason: why, At: time.Now().Add(-ago)}
		events = append(events, s.probes.board.Record(health.Key{}, r)...) // of a target that is gone
	}
	s.probes.mu.Unlock()
	s.noticed(events)
}

func (s *stage) noticed(events []health.Event) {
	s.health.Noticed(events)
	s.proxy.Replan()
}
