package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/conntrack"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/kernel/nl"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy/answers"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// How long it is between two looks for endpoints that do not answer. With manyTracked tracked connections or more a
// look costs more than people should pay every ten seconds: with 100,000 of them the kernel takes 70 ms to find those
// that wait, and listing all takes 450 ms (BenchmarkTCP of kernel/conntrack, Linux 6.18 on a busy machine).
const (
	answersPeriod     = 10 * time.Second
	answersPeriodMany = time.Minute
	manyTracked       = 10_000
)

// mostNamed bounds the services that are named with an endpoint.
const mostNamed = 3

// answersRest is how long an endpoint that answered nobody gets no clients, where healthCheck.passive asks for that.
// Then it has to show again whether it answers, since nothing else would tell.
const answersRest = 5 * time.Minute

// answersWatch looks for endpoints that do not answer their clients.
type answersWatch struct {
	tracked interface {
		TCP(f kernel.Family, waiting bool, each func(kernel.Asked)) error
	}
	limits func() machine.Conntrack
	fronts func() *frontend.Frontends // nil before the first sync
	board  *condition.Board
	silent func(map[netip.AddrPort]bool) // takes those that count as down; see health.Known
	log    *slog.Logger
}

// askedFor is what of the table clients of an endpoint ask for.
type askedFor struct {
	services []string
	passive  bool // one of them takes it out if it does not answer
}

// watchAnswers says which endpoints do not answer their clients, until ctx ends. Where connection tracking cannot be
// listed nothing is said. The relay knows of its own: tracking would not tell them from probes.
func (d *daemon) watchAnswers(ctx context.Context, r *relay.Relay) {
	if r != nil {
		limits := func() machine.Conntrack { return machine.Conntrack{SynSent: relay.UnansweredFor} }
		w := answersWatch{r, limits, d.console.frontends, &d.conditions, d.checker.SetSilent, d.log.Logger}
		w.run(ctx)
		return
	}
	tracked, err := conntrack.Open(new(nl.Dialer))
	if err != nil {
		d.log.Info("endpoints that do not answer are not found", "err", err)
		return
	}
	defer tracked.Close()
	w := answersWatch{tracked, machine.ReadConntrack, d.console.frontends, &d.conditions, d.checker.SetSilent,
		d.log.Logger}
	w.run(ctx)
}

// run looks until ctx ends.
func (w *answersWatch) run(ctx context.Context) {
	var memory answers.Memory
	failed := false
	out := lingering{} // nobody asks them, so nobody waits
	for {
		limits := w.limits()
		period := answersPeriod
		if limits.Entries >= manyTracked {
			period = answersPeriodMany
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
		}
		f := w.fronts()
		if f == nil || limits.SynSent == 0 { // how long a client waits cannot be told
			continue
		}
		l, asked, err := w.look(f, limits.SynSent, memory)
		if err != nil { // nothing is known then, so nothing is said
			if !failed {
				w.log.Info("endpoints that do not answer are not found at present", "err", err)
			}
			l, asked, memory = answers.Look{At: time.Now()}, nil, nil
		}
		failed = err != nil
		var silent []answers.Silent
		silent, memory = answers.Judge(memory, l)
		stay, leave := silentConditions(silent, asked)
		said, down := out.with(l.At, answersRest, leave), map[netip.AddrPort]bool{}
		for _, c := range said { // silentConditions made the subject
			down[netip.MustParseAddrPort(c.Subject)] = true
		}
		for _, c := range stay {
			if !down[netip.MustParseAddrPort(c.Subject)] { // else other services still ask it
				said = append(said, c)
			}
		}
		w.board.SetAll(condition.Silent, said)
		w.silent(down)
	}
}

// look looks at the tracked connections to endpoints: at all of those that may be silent, and else at those that wait.
// synSent is how long one is tracked after a SYN. It returns what is asked for, by endpoint, too.
func (w *answersWatch) look(f *frontend.Frontends, synSent time.Duration, suspects answers.Memory) (
	l answers.Look, asked map[netip.AddrPort]askedFor, err error,
) {
	l = answers.Look{At: time.Now(), All: len(suspects) > 0, Seen: map[netip.AddrPort]answers.Seen{}}
	asked = map[netip.AddrPort]askedFor{}
	see := func(c kernel.Asked) {
		at := c.Key.Addr
		if _, suspect := suspects[at]; c.Answered && !suspect || !c.Answered && synSent-c.Left > answers.Fresh {
			return
		}
		x, ok := asks(f, c.Key)
		if !ok {
			return
		}
		seen := l.Seen[at]
		if max(len(seen.Answered), len(seen.Waiting)) > answers.Most {
			return
		}
		one := answers.Connection{
			Client: c.Client, To: netip.AddrPortFrom(c.Key.Virtual.Addr, c.Key.Virtual.Port),
		}
		if c.Answered {
			seen.Answered = append(seen.Answered, one)
		} else {
			seen.Waiting = append(seen.Waiting, one)
		}
		l.Seen[at] = seen
		a, s := asked[at], f.Service(x)
		if name := s.DisplayName(); !slices.Contains(a.services, name) {
			a.services = append(a.services, name)
			a.passive = a.passive || s.HealthCheck != nil && s.HealthCheck.Passive
			asked[at] = a
		}
	}
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		if !f.Serves(family) {
			continue
		}
		if err = w.tracked.TCP(family, !l.All, see); err != nil {
			return l, nil, err
		}
	}
	return l, asked, nil
}

// asks returns the front of a connection whose endpoint is up and gets new connections, and whose replies come back
// through this node.
func asks(f *frontend.Frontends, k kernel.RealKey) (*frontend.Front, bool) {
	i, ok := f.Find(k.Virtual)
	if !ok {
		return nil, false // not through a service
	}
	x := &f.Fronts[i]
	list, service := f.Backends(x), int(x.Service)
	i, ok = slices.BinarySearchFunc(list, k.Addr, func(b frontend.Backend, a netip.AddrPort) int {
		return f.Addr(service, b).Compare(a)
	})
	return x, ok && f.Up(service, list[i]) && f.Forward(x) == sources.Masquerade
}

// silentConditions returns the conditions of endpoints that do not answer: of those that stay in, and of those that
// count as down.
func silentConditions(silent []answers.Silent, asked map[netip.AddrPort]askedFor) (stay, leave []condition.Condition) {
	for _, s := range silent {
		a := asked[s.Endpoint]
		slices.Sort(a.services)
		c := condition.Condition{
			Subject: s.Endpoint.String(),
			Text: fmt.Sprintf("it does not answer clients of %s: %d connections wait for its first packet, and no new one "+
				"was answered", sources.Few(a.services, mostNamed), s.Waiting),
		}
		if a.passive {
			leave = append(leave, c)
		} else {
			stay = append(stay, c)
		}
	}
	return stay, leave
}
