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
	"github.com/svcproxy/svcproxy/proxy/answers"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// How long it is between two looks for endpoints that do not answer. With manyTracked tracked connections or more a
// look costs more than people should pay every ten seconds.
const (
	answersPeriod     = 10 * time.Second
	answersPeriodMany = time.Minute
	manyTracked       = 10_000
)

// answersWatch looks for endpoints that do not answer their clients.
type answersWatch struct {
	tracked interface {
		TCP(f kernel.Family, waiting bool, each func(conntrack.Asked)) error
	}
	limits func() machine.Conntrack
	fronts func() *frontend.Frontends // nil before the first sync
	board  *condition.Board
	log    *slog.Logger
}

// watchAnswers says which endpoints do not answer their clients, until ctx ends. Where connection tracking cannot be
// listed nothing is said.
func (d *daemon) watchAnswers(ctx context.Context) {
	tracked, err := conntrack.Open(new(nl.Dialer))
	if err != nil {
		d.log.Info("endpoints that do not answer are not found", "err", err)
		return
	}
	defer tracked.Close()
	w := answersWatch{tracked, machine.ReadConntrack, d.console.frontends, &d.conditions, d.log.Logger}
	w.run(ctx)
}

// run looks until ctx ends.
func (w *answersWatch) run(ctx context.Context) {
	var memory answers.Memory
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
		if f == nil {
			continue
		}
		l, services, err := w.look(f, limits.SynSent, memory)
		if err != nil {
			w.log.Debug("looking for endpoints that do not answer", "err", err)
			continue
		}
		var silent []answers.Silent
		silent, memory = answers.Judge(memory, l)
		w.board.SetAll(condition.Silent, silentConditions(silent, services))
	}
}

// look looks at the tracked connections to endpoints: at all of those that may be silent, and else at those that wait.
// synSent is how long one is tracked after a SYN. It returns the services of the endpoints, too.
func (w *answersWatch) look(f *frontend.Frontends, synSent time.Duration, suspects answers.Memory) (
	l answers.Look, services map[netip.AddrPort][]string, err error,
) {
	l = answers.Look{At: time.Now(), All: len(suspects) > 0, Seen: map[netip.AddrPort]answers.Seen{}}
	services = map[netip.AddrPort][]string{}
	see := func(c conntrack.Asked) {
		at := c.Key.Addr
		if _, suspect := suspects[at]; c.Answered && !suspect || !c.Answered && synSent-c.Left > answers.Fresh {
			return
		}
		x, ok := asks(f, c.Key)
		if !ok {
			return
		}
		seen, one := l.Seen[at], answers.Connection{
			Client: c.Client, To: netip.AddrPortFrom(c.Key.Virtual.Addr, c.Key.Virtual.Port),
		}
		if c.Answered {
			seen.Answered = append(seen.Answered, one)
		} else {
			seen.Waiting = append(seen.Waiting, one)
		}
		l.Seen[at] = seen
		if name := f.Service(x).DisplayName(); !slices.Contains(services[at], name) {
			services[at] = append(services[at], name)
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
	return l, services, nil
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

func silentConditions(silent []answers.Silent, services map[netip.AddrPort][]string) []condition.Condition {
	list := make([]condition.Condition, len(silent))
	for i, s := range silent {
		slices.Sort(services[s.Endpoint])
		list[i] = condition.Condition{
			Subject: s.Subject(services[s.Endpoint]),
			Text: fmt.Sprintf("it does not answer: %d connections wait for its first packet, and no new one was answered",
				s.Waiting),
		}
	}
	return list
}
