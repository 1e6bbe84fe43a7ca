// Package hooks tells a program or a web server of changes of state: the notable events of package events.
//
// Each of both is called at most once in MinInterval, with all events since the last call. A call that fails
// is made again after MinInterval, five times at most with the same events. At the end one last call tells
// what was not told yet, because the next run tells of its own events alone. Nothing but that end waits for a
// call.
package hooks

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/proxy/events"
)

// Config says who is told. Its zero value sends nothing.
type Config struct {
	Exec        []string // program and arguments
	Webhook     string   // URL
	MinInterval time.Duration
	Timeout     time.Duration
}

// Message is what is told. Its JSON form is stable: ../status/JSON.md.
type Message struct {
	Version string    `json:"version"` // of svcproxy
	Node    string    `json:"node"`
	Time    time.Time `json:"time"`
	// Text is the newest event in words: "endpointDown: 10.2.1.10:8080 tcp refused: web".
	Text   string         `json:"text"`
	Events []events.Event `json:"events"`               // oldest first, at most maxEvents
	More   int            `json:"moreEvents,omitempty"` // older ones that are left out
}

// maxEvents bounds a Message.
const maxEvents = 100

// Notifier calls the program and the web server of a configuration. Fill in its fields.
type Notifier struct {
	Ring          *events.Ring
	From          uint64 // number of the last event that is not told: the last of an earlier run
	Version, Node string
	Log           *slog.Logger
	Config        func() Config // now
}

// Run tells of the events after From until ctx ends, and then of those that are not told yet. It returns 3.2
// s after ctx at the latest.
func (n *Notifier) Run(ctx context.Context) {
	n.tell(ctx, way{"webhook", post}, way{"exec", run})
}

// lastCalls is how long calls may take after the end: one that was begun, and the last one. systemd's limit for a whole
// stop is 20 s.
const lastCalls = 3 * time.Second

func (n *Notifier) tell(ctx context.Context, ways ...way) {
	var telling sync.WaitGroup
	for _, w := range ways {
		telling.Go(func() { n.follow(ctx, n.From, w) })
	}
	told := make(chan struct{})
	go func() {
		telling.Wait()
		close(told)
	}()
	<-ctx.Done()
	select {
	case <-told:
	case <-time.After(lastCalls + 200*time.Millisecond): // a program that the kill does not end
	}
}

// way is one way to tell, with its name for the log.
type way struct {
	name string
	tell call
}

// call tells of a message, by one way. A way that is not configured tells nothing and does not fail.
type call func(context.Context, Config, Message) error

// maxTries is how often the same events are tried to be told.
const maxTries = 5

// follow collects notable events and calls with them.
func (n *Notifier) follow(ctx context.Context, seq uint64, by way) {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastCalls, cancel) })()
	var waiting []events.Event
	more, tries := 0, 0
	for {
		ending := ctx.Err() != nil // if so, this round is the last
		list, lost, news := n.Ring.After(seq)
		more += int(lost)
		for _, e := range list {
			seq = e.Seq
			if e.Kind.Notable() {
				waiting, tries = append(waiting, e), 0
			}
		}
		if cut := len(waiting) - maxEvents; cut > 0 {
			waiting, more = append([]events.Event(nil), waiting[cut:]...), more+cut
		}
		if len(waiting) == 0 {
			if ending {
				return
			}
			select {
			case <-ctx.Done():
			case <-news:
			}
			continue
		}
		c := n.Config()
		limited, cancel := context.WithTimeout(calls, c.Timeout)
		err := by.tell(limited, c, n.message(waiting, more))
		cancel()
		switch tries++; {
		case err == nil || ending || tries == maxTries:
			if err != nil {
				n.Log.Error("gave up a notification", "by", by.name, "tries", tries, "events", len(waiting), "err", err)
			}
			waiting, more, tries = nil, 0, 0
		default:
			n.Log.Warn("a notification failed: trying again", "by", by.name, "err", err)
		}
		if ending {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.MinInterval):
		}
	}
}

func (n *Notifier) message(list []events.Event, more int) Message {
	last := list[len(list)-1]
	return Message{Version: n.Version, Node: n.Node, Time: last.Time, Text: last.Short(), Events: list, More: more}
}
