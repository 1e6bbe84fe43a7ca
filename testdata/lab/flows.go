package lab

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a flow may wait for an answer: an outage, the retransmissions after it, and a slow machine.
const patience = time.Minute

// The time between two questions is that of the last answer, within these bounds. The packets of many flows that are asked
// at once overflow the queues of a machine that is slow: its kernel then also loses half-open connections, and resets them.
const (
	leastPace = time.Millisecond
	mostPace  = 10 * time.Millisecond
)

// Flows are many open connections of a client, each with the server that it reached.
type Flows struct {
	all  []*flow
	pace atomic.Int64 // a time.Duration
	mu   sync.Mutex
	lost []string
}

type flow struct {
	mu sync.Mutex // one question at a time
	*Conn
	server string
	lost   bool
}

// OpenFlows opens n connections and asks on each.
func (ns *Namespace) OpenFlows(n int, to netip.AddrPort) (*Flows, error) {
	f := &Flows{}
	var err error
	for len(f.all) < n && err == nil {
		var c net.Conn
		if c, err = ns.dial(context.Background(), patience, "tcp", netip.Addr{}, to); err == nil {
			f.all = append(f.all, &flow{Conn: &Conn{c, bufio.NewReader(c)}})
		}
	}
	if err == nil {
		f.Round()
		if lost := f.Lost(); len(lost) > 0 {
			err = fmt.Errorf("%d of %d connections do not answer: %s", len(lost), n, lost[0])
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Round asks once on each connection that is not lost, and waits for the answers. A connection is lost if it ends, or
// if another server answers.
func (f *Flows) Round() { f.roundUntil(nil) }

// roundUntil is Round that asks on no more connections when stop is closed. It reports whether it is.
func (f *Flows) roundUntil(stop <-chan struct{}) (stopped bool) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, c := range f.all {
		asking.Go(func() { f.ask(c) })
		select {
		case <-stop:
			return true
		case <-time.After(max(leastPace, min(mostPace, time.Duration(f.pace.Load())))):
		}
	}
	return false
}

func (f *Flows) ask(c *flow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost {
		return
	}
	began := time.Now()
	a, err := c.askWithin(patience)
	f.pace.Store(int64(time.Since(began)))
	if err == nil && c.server == "" {
		c.server = a.Backend
	}
	if err == nil && a.Backend == c.server {
		return
	}
	c.lost = true
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = append(f.lost, fmt.Sprintf("%s to %s: answer of %q, %v", c.LocalAddr(), c.server, a.Backend, err))
}

// During asks round after round while something happens, and then once on each connection.
func (f *Flows) During(event func()) {
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for !f.roundUntil(stop) {
		}
	})
	func() {
		defer asking.Wait() // also if event ends the test
		defer close(stop)
		event()
	}()
	f.Round()
}

// Lost lists the connections that were lost since the last call.
func (f *Flows) Lost() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lost := f.lost
	f.lost = nil
	return lost
}

// Close resets all connections.
func (f *Flows) Close() {
	for _, c := range f.all {
		c.Reset()
	}
}

// mostVisits is how many newcomers are on their way at a time. A slow machine would have more and more of them, until its
// kernel loses half-open connections.
const mostVisits = 30

// Newcomers open connections one after the other, ask, and go.
type Newcomers struct {
	stop   chan struct{}
	ended  sync.Once
	going  sync.WaitGroup
	mu     sync.Mutex
	visits Visits
	begun  map[time.Time]bool // when each came, and whether it was refused
}

// Visits is what came of newcomers.
type Visits struct {
	All     int
	Refused []string // no connection
	Lost    []string // a connection that ended before its answer: its packets moved to another node
	Slowest time.Duration
	Outage  time.Duration // from the first to the last of a row that were all refused, at most
}

// Newcomers starts one in each period. A packet that is lost on its way is sent again after a second, so an outage makes them late,
// and a refusal makes them fail.
func (ns *Namespace) Newcomers(to netip.AddrPort, period time.Duration) *Newcomers {
	n := &Newcomers{stop: make(chan struct{}), begun: map[time.Time]bool{}}
	n.going.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		places := make(chan struct{}, mostVisits)
		for {
			select {
			case <-n.stop:
				return
			case <-tick.C:
			}
			select {
			case <-n.stop:
				return
			case places <- struct{}{}:
			}
			n.going.Go(func() {
				defer func() { <-places }()
				n.visit(ns, to)
			})
		}
	})
	return n
}

func (n *Newcomers) visit(ns *Namespace, to netip.AddrPort) {
	began := time.Now()
	c, refused := ns.dial(context.Background(), patience, "tcp", netip.Addr{}, to)
	var lost error
	if refused == nil {
		conn := &Conn{c, bufio.NewReader(c)}
		_, lost = conn.askWithin(patience)
		conn.Reset()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.visits.All++
	n.begun[began] = refused != nil
	n.visits.Slowest = max(n.visits.Slowest, time.Since(began).Round(time.Millisecond))
	at := began.Format("15:04:05.000: ")
	if refused != nil {
		n.visits.Refused = append(n.visits.Refused, at+refused.Error())
	}
	if lost != nil {
		n.visits.Lost = append(n.visits.Lost, at+lost.Error())
	}
}

// Came is how many have ended their visit.
func (n *Newcomers) Came() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.visits.All
}

// Stop waits for those that are on their way. It may be called more than once.
func (n *Newcomers) Stop() Visits {
	n.ended.Do(func() { close(n.stop) })
	n.going.Wait()
	var first time.Time // of the row
	for _, at := range slices.SortedFunc(maps.Keys(n.begun), time.Time.Compare) {
		switch {
		case !n.begun[at]:
			first = time.Time{}
		case first.IsZero():
			first = at
		default:
			n.visits.Outage = max(n.visits.Outage, at.Sub(first))
		}
	}
	return n.visits
}
