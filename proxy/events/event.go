package events

import (
	"fmt"
	"time"
)

// Event is one thing that happened. What it holds is bounded, so that a ring of
// them is.
type Event struct {
	// Seq counts the events of one run from 1.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Cause is why the sync was made that did it; "" if none did.
	Cause string `json:"cause,omitempty"`
	// Text is one line to a person.
	Text string `json:"text"`
	// Services are the full names of those that it is about, at most
	// maxServices, and More counts the others.
	Services []string `json:"services,omitempty"`
	More     int      `json:"moreServices,omitempty"`
	// Ops counts what was done to the kernel; nil if nothing was to be done.
	Ops *Ops `json:"ops,omitempty"`
	// Times are when the change passed each stage; nil if it was nobody's change.
	Times *Times `json:"times,omitempty"`
}

// Ops counts the steps of a plan, and those of them that failed.
type Ops struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
	Failed int `json:"failed"`
}

// Times prove that a change arrived. Seen is zero when no event announced it, as
// when a full reading of the files found it.
type Times struct {
	Seen         time.Time `json:"seen,omitzero"`
	Parsed       time.Time `json:"parsed"`
	Planned      time.Time `json:"planned"`
	Acknowledged time.Time `json:"acknowledged"`
}

// Total is from the first of the times known to the last.
func (t Times) Total() time.Duration {
	if t.Seen.IsZero() || t.Seen.After(t.Parsed) {
		return t.Acknowledged.Sub(t.Parsed)
	}
	return t.Acknowledged.Sub(t.Seen)
}

// Bounds of one event. A name of a service is at most 127 bytes, so that an
// event is below 4 KiB, and a full ring below 4 MiB.
const (
	maxServices = 20
	maxText     = 1000 // bytes
)

// bounded cuts off what is too much. The cut may be inside a character: what is
// left of that one goes too.
func (e Event) bounded() Event {
	if len(e.Text) > maxText {
		e.Text = trimmed(e.Text[:maxText]) + "…"
	}
	if n := len(e.Services); n > maxServices {
		e.Services, e.More = append([]string(nil), e.Services[:maxServices]...), e.More+n-maxServices
	}
	return e
}

// Forgotten is what a reader is told in place of events that came and went
// before it read.
func Forgotten(lost uint64) Event {
	return Event{Time: time.Now(), Kind: Lost, Text: fmt.Sprintf("%d events were forgotten before they were read", lost)}
}
