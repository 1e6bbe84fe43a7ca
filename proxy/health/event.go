package health

import (
	"fmt"
	"time"
)

// Kind is what an Event is about.
type Kind uint8

// The kinds. The first ones are about one target, and its verdict differs from the last one; the others are about all.
const (
	WentUp       Kind = iota + 1 // or has its first result
	WentDown                     //
	Reshared                     // its agent asks for another share, a drain, or no longer does
	IsHeld                       // it went down, but counts as up: see MassFailure
	IsReleased                   // it is held no longer: its own state counts
	IsAdded                      // a new target has a state taken over from the kernel
	IsGone                       // no service has the target any more
	StartsToFlap                 // it changes too often: it is up only after more good results
	IsCalm                       //
	MassFailure                  // too much went down at once
	MassOver                     // and the last states are held no longer
	WentBlind                    // no probe of any target works, by our own fault
	SeesAgain                    //
	Ordered                      // the operator gave an order
	TakenBack                    // the operator took an order back
	OrderOver                    // an order ended by itself
)

var kinds = [...]string{
	"", "endpoint-up", "endpoint-down", "endpoint-share", "endpoint-held", "endpoint-released", "target-added",
	"target-gone", "flapping", "flapping-over",
	"mass-failure", "mass-failure-over", "checker-blind", "checker-sees",
	"order", "order-taken-back", "order-over",
}

// String returns the name of the event.
func (k Kind) String() string { return kinds[k] }

// OfTarget reports whether events of the kind are about one target.
func (k Kind) OfTarget() bool { return k < MassFailure }

// OfOrder reports whether events of the kind are about an order of the operator.
func (k Kind) OfOrder() bool { return k >= Ordered }

// Event is something that a Board noticed, or that happened to an order of the operator.
type Event struct {
	Kind    Kind
	At      time.Time
	Key     Key     // of a target
	Verdict Verdict // its verdict from now on
	Run     int     // results in a row that led to it; 0 = there was no result before
	Down    int     // of a mass failure: how many targets went down
	Of      int     // of so many that were up
	Reason  string  // of blindness: why the last probe failed; of OrderOver: why it ended

	Order  Override // given, taken back or over
	Author Author   // who took Order back
}

// First reports whether the event is the first result of a target.
func (e Event) First() bool { return e.Run == 0 && (e.Kind == WentUp || e.Kind == WentDown) }

// AsksForShare reports whether an agent asks for another share of the weight than all of it.
func (e Event) AsksForShare() bool {
	return e.Verdict.Ask != AskNothing || e.Verdict.Percent != 0 && e.Verdict.Percent != 100
}

// String says what happened, without the time.
func (e Event) String() string {
	switch v := e.Verdict; {
	case e.Kind == MassFailure:
		return fmt.Sprintf("%s: %d of %d targets went down at once", e.Kind, e.Down, e.Of)
	case e.Kind == WentBlind:
		return fmt.Sprintf("%s: %s", e.Kind, e.Reason)
	case e.Kind.OfOrder():
		return e.order()
	case !e.Kind.OfTarget():
		return e.Kind.String()
	case v.Reason != "" && e.Kind != StartsToFlap && v.Phase.IsDown():
		return fmt.Sprintf("%s %s: %s", e.Kind, e.Key, v.Reason)
	}
	return fmt.Sprintf("%s %s", e.Kind, e.Key)
}

// order says what happened to an order.
func (e Event) order() string {
	o := &e.Order
	text := fmt.Sprintf("%s %s %s", e.Kind, o.Verb, o.Selector)
	if o.Verb == Reweigh {
		text += " " + o.Weight.String()
	}
	switch e.Kind {
	case TakenBack:
		return text + " " + e.Author.String()
	case OrderOver:
		return text + ": " + e.Reason
	}
	if !o.Until.IsZero() {
		text += " until " + o.Until.UTC().Format(time.RFC3339)
	}
	return text + " " + Author{o.By, o.UID, o.Why}.String()
}
