package events

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// Health adds to a Ring, and to the log, what health checks find and what the operator orders. Fill in the exported
// fields. Its methods may be called from any goroutine.
//
// If many endpoints change at once, one event tells of all: those of one moment become one event for each
// kind if they are more than foldAbove, and after an event the next ones are collected for foldPause. So an
// outage of 25,000 endpoints leaves the older events in the ring.
type Health struct {
	Ring *Ring
	Log  *slog.Logger
	// Table returns the table whose endpoints are probed, as its sources have it.
	Table func() sources.Table
	// Users names the services that use any of some targets, sorted.
	Users func(...health.Key) []string

	mu      sync.Mutex
	pausing bool                   // foldPause is not over
	waiting []health.Event         // of targets, for its end
	modes   map[group]health.Group // the groups whose mode is not Normal
	asks    map[health.Key]health.Ask
	mass    time.Time // of the last mass failure
}

const (
	foldAbove = 3
	foldPause = time.Second
	// massPause is the least time between two events of a mass failure. Without a hold half of those targets that are
	// left can be one again.
	massPause = time.Minute
)

// Noticed adds the events of a checker, in their order: checker.Options.Noticed.
func (h *Health) Noticed(list []health.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range list {
		if e.Kind == health.WentUp && e.First() && e.AsksForShare() {
			e.Kind = health.Reshared // that it is up is no news
		}
		switch {
		case e.Kind == health.MassFailure && e.At.Sub(h.mass) < massPause:
		case !e.Kind.OfTarget():
			h.flush()
			h.add(h.ofNode(e))
		case h.reported(e):
			h.waiting = append(h.waiting, e)
		}
	}
	if !h.pausing {
		h.fold()
	}
}

// fold adds the events that wait, and begins a pause if there were any. The lock is held.
func (h *Health) fold() {
	if h.pausing = len(h.waiting) > 0; !h.pausing {
		return
	}
	h.flush()
	time.AfterFunc(foldPause, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fold()
	})
}

// flush adds the events that wait. It is also called before other events are added, which happened later. The lock is
// held.
func (h *Health) flush() {
	list := h.waiting
	h.waiting = nil
	for len(list) > 0 {
		same, others := split(list, func(e health.Event) bool { return endpointKind(e) == endpointKind(list[0]) })
		if len(same) > foldAbove {
			h.add(h.ofTargets(same))
		} else {
			for _, e := range same {
				h.add(h.ofTarget(e))
			}
		}
		list = others
	}
}

// split returns the elements for which a condition holds, and the others.
func split[T any](list []T, holds func(T) bool) (yes, no []T) {
	for _, v := range list {
		if holds(v) {
			yes = append(yes, v)
		} else {
			no = append(no, v)
		}
	}
	return yes, no
}

// add adds an event to the ring and to the log.
func (h *Health) add(e Event) {
	h.Ring.Add(e)
	level := slog.LevelInfo
	if style := e.Kind.Style(); style == screen.Bad || style == screen.Warn {
		level = slog.LevelWarn
	}
	args := []any{"event", string(e.Kind), "text", e.Text}
	if len(e.Services) > 0 {
		args = append(args, "services", e.bounded().names())
	}
	h.Log.Log(context.Background(), level, "health", args...)
}

// endpointKinds are the kinds of events of a target. Others are not told: a mass failure has an event of its own, and
// the first good result of an endpoint, or its end, is no news.
var endpointKinds = map[health.Kind]Kind{
	health.WentUp: EndpointUp, health.WentDown: EndpointDown, health.IsReleased: EndpointDown, health.Reshared: AgentAsks,
	health.StartsToFlap: Flapping, health.IsCalm: Calm,
}

func endpointKind(e health.Event) Kind { return endpointKinds[e.Kind] }

// reported reports whether an event of a target is told. While a target flaps, its changes are not. The lock is held.
func (h *Health) reported(e health.Event) bool {
	switch e.Kind {
	case health.WentDown:
		return !e.Verdict.Flapping()
	case health.WentUp:
		h.asked(e)
		return !e.Verdict.Flapping() && !e.First()
	case health.Reshared: // agents also ask for other shares, which is no news
		was := h.asks[e.Key]
		h.asked(e)
		return was != e.Verdict.Ask
	case health.IsGone:
		h.asked(e)
	}
	return endpointKind(e) != ""
}

// asked notes what an agent asks for.
func (h *Health) asked(e health.Event) {
	switch {
	case e.Verdict.Ask == health.AskNothing:
		delete(h.asks, e.Key)
	case h.asks == nil:
		h.asks = map[health.Key]health.Ask{e.Key: e.Verdict.Ask}
	default:
		h.asks[e.Key] = e.Verdict.Ask
	}
}

// ofTarget is the event of one target.
func (h *Health) ofTarget(e health.Event) Event {
	text := targetText(e)
	switch v := &e.Verdict; {
	case e.Kind == health.IsReleased:
		text += " (it was held in a mass failure)"
	case e.First():
		text += " (its first result)"
	case e.Kind == health.WentDown, e.Kind == health.WentUp:
		text += fmt.Sprintf(" (%d of %d, %s)", e.Run, e.Run, v.Changed.Sub(v.Noticed).Round(100*time.Millisecond))
	}
	return Event{Time: e.At, Kind: endpointKind(e), Text: text, Services: h.Users(e.Key)}
}

// ofTargets is one event for many targets.
func (h *Health) ofTargets(list []health.Event) Event {
	last := list[len(list)-1]
	keys := make([]health.Key, len(list))
	for i := range list {
		keys[i] = list[i].Key
	}
	return Event{
		Time: last.At, Kind: endpointKind(last), Services: h.Users(keys...),
		Text: fmt.Sprintf("%d endpoints: %s", len(list), joined(list, targetText)),
	}
}

// targetText says what happened to a target: "10.2.1.10:8080 tcp refused".
func targetText(e health.Event) string {
	v := &e.Verdict
	check, addr, _ := strings.Cut(e.Key.String(), " ")
	text := addr + " " + check
	switch endpointKind(e) {
	case EndpointDown:
		return text + " " + v.Reason
	case AgentAsks:
		if v.Ask == health.AskNothing {
			return text + " asks for connections again"
		}
		return text + " asks for " + v.Ask.String()
	case Flapping:
		return text + " changes too often: it is up only after more good results"
	case Calm:
		if v.Phase.IsDown() {
			return text + " stays down: " + v.Reason
		}
		return text + " stays up"
	}
	return text
}

// ofNode is an event about all targets, or about an order.
func (h *Health) ofNode(from health.Event) Event {
	e := Event{Time: from.At}
	switch from.Kind {
	case health.MassFailure:
		h.mass = from.At
		e.Kind, e.Text = MassFailure, fmt.Sprintf("%d of %d targets went down at once: this node may have lost its network",
			from.Down, from.Of)
	case health.MassOver:
		e.Kind, e.Text = MassOver, "the present states count"
	case health.WentBlind:
		e.Kind, e.Text = Blind, "no probe tells anything, so the last states count: "+from.Reason
	case health.SeesAgain:
		e.Kind, e.Text = Sees, "probes tell something again"
	default:
		e.Kind = map[health.Kind]Kind{health.Ordered: Order, health.TakenBack: OrderBack,
			health.OrderOver: OrderOver}[from.Kind]
		e.Text = strings.TrimPrefix(from.String(), from.Kind.String()+" ")
		for _, p := range from.Order.Selector.Places(h.Table()) {
			if !slices.Contains(e.Services, p.Service) {
				e.Services = append(e.Services, p.Service)
			}
		}
	}
	return e
}
