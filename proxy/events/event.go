package events

import (
	"fmt"
	"time"
)

// Event is one thing that happened. Its JSON form is stable: ../status/JSON.md. In
// a Ring its size is bounded.
type Event struct {
	// Seq counts the events from 1, over restarts if a File keeps them.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Cause is why the sync ran that did it; "" if no sync did.
	Cause string `json:"cause,omitempty"`
	// Text is one line for people.
	Text string `json:"text"`
	// Services are the names of the services that it is about, at most
	// maxServices. More counts the others.
	Services []string `json:"services,omitempty"`
	More     int      `json:"moreServices,omitempty"`
	// Changes say what differs in the first services that changed, one line each: "web: scheduler rr -> wrr". They
	// have maxText bytes at most together.
	Changes []string `json:"changes,omitempty"`
	// By is who asked for the files to be read; "" without a request.
	By string `json:"by,omitempty"`
	// Ops counts what was done to the kernel; nil if there was nothing to do.
	Ops *Ops `json:"ops,omitempty"`
	// Times is when the change passed each stage; nil if no source was behind it.
	Times *Times `json:"times,omitempty"`
}

// Ops counts the ops of a plan, and those that failed.
type Ops struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
	Failed int `json:"failed"`
}

// Times is when a change passed each stage on its way to the kernel. Seen is zero
// if no event announced the change: a periodic reading of the files found it.
type Times struct {
	Seen         time.Time `json:"seen,omitzero"`
	Parsed       time.Time `json:"parsed"`
	Planned      time.Time `json:"planned"`
	Acknowledged time.Time `json:"acknowledged"`
}

// Total is the time from the first known stage to the last.
func (t Times) Total() time.Duration {
	if t.Seen.IsZero() || t.Seen.After(t.Parsed) {
		return t.Acknowledged.Sub(t.Parsed)
	}
	return t.Acknowledged.Sub(t.Seen)
}

// Bounds of one event. The name of a service has at most 127 bytes, so an event
// has less than 5 KiB and a full ring less than 5 MiB.
const (
	maxServices = 20
	maxText     = 1000 // bytes
)

// bounded cuts the text and the list of services. If the cut is inside a
// character, the rest of that character goes, too.
func (e Event) bounded() Event {
	if len(e.Text) > maxText {
		e.Text = trimPartial(e.Text[:maxText]) + "…"
	}
	if n := len(e.Services); n > maxServices {
		e.Services, e.More = append([]string(nil), e.Services[:maxServices]...), e.More+n-maxServices
	}
	size := 0
	for i, line := range e.Changes {
		if size += len(line); size > maxText {
			e.Changes = e.Changes[:i:i]
			break
		}
	}
	return e
}

// Forgotten is what a reader gets in place of events that the Ring has already
// dropped.
func Forgotten(lost uint64) Event {
	return Event{Time: time.Now(), Kind: Lost, Text: fmt.Sprintf("%d events were forgotten before they were read", lost)}
}
