package proxy

import (
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// requests are the channels by which other goroutines reach the loop.
type requests struct {
	check   chan struct{} // a full check is in the inbox
	replan  chan struct{} // the health overlay is to be applied again
	dump    chan struct{}
	written chan struct{} // rules were changed by the writers in the inbox
	alive   chan struct{} // unbuffered: the loop answers by receiving
	periods chan periods
}

// periods are the values of SyncPeriod and MinSyncPeriod.
type periods struct{ sync, minSync time.Duration }

func newRequests() requests {
	return requests{
		check: make(chan struct{}, 1), replan: make(chan struct{}, 1), dump: make(chan struct{}, 1),
		written: make(chan struct{}, 1), alive: make(chan struct{}), periods: make(chan periods, 1),
	}
}

// replans takes a request of Replan that the loop has not received.
func (r *requests) replans() bool {
	select {
	case <-r.replan:
		return true
	default:
		return false
	}
}

// Check requests a full check of the kernel now, because a person asked (CauseAsked)
// or something changed (CauseNode, CauseConfig). It returns the number of the request:
// see Report.Asked. It may be called from any goroutine.
func (p *Proxy) Check(why Cause) uint64 {
	n := p.in.ask(why)
	select {
	case p.requests.check <- struct{}{}:
	default: // the loop has not received the last one yet
	}
	return n
}

// Replan requests a sync that applies the health overlay again. It reads nothing from
// the kernel unless a check is due. It may be called from any goroutine.
func (p *Proxy) Replan() {
	p.backlog.queued(time.Now())
	select {
	case p.requests.replan <- struct{}{}:
	default: // the loop has not received the last one yet
	}
}

// RulesChanged requests a check of the rules, because other processes changed some. They are named to people; "" is an
// unknown one. It may be called from any goroutine.
func (p *Proxy) RulesChanged(by []string) {
	p.in.wrote(by)
	select {
	case p.requests.written <- struct{}{}:
	default: // the loop has not received the last one yet
	}
}

// SetPeriods changes SyncPeriod and MinSyncPeriod, before Run or while it runs. It may
// be called from any goroutine.
func (p *Proxy) SetPeriods(sync, minSync time.Duration) {
	for {
		select {
		case p.requests.periods <- periods{sync, minSync}:
			return
		case <-p.requests.periods: // replaced before the loop received it
		}
	}
}

// SetFacts changes Facts, before Run or while it runs. The next sync judges all
// services by the new ones; call Check for one at once. It may be called from any
// goroutine.
func (p *Proxy) SetFacts(facts sources.HostFacts) {
	p.in.setFacts(facts)
}

// DumpState requests that the last reading of the kernel is logged. It may be called
// from any goroutine.
func (p *Proxy) DumpState() {
	select {
	case p.requests.dump <- struct{}{}:
	default: // requested already
	}
}

// answer receives a pending call of Alive. The next sync may be due already, and
// select would choose between the two by chance. A loop whose syncs each wait long for
// another program's lock would seem to hang.
func (p *Proxy) answer() {
	select {
	case <-p.requests.alive:
	default:
	}
}
