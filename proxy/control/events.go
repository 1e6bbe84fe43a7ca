package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/events"
)

// runHeader names the run of the daemon whose events are sent.
const runHeader = "Svcproxy-Run"

// events sends the events, one a line. With follow it goes on with new ones. Those after an event of another run are
// all.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, err := strconv.ParseUint("0"+query.Get("after"), 10, 64)
	if err != nil {
		http.Error(w, "after: want the number of an event", http.StatusBadRequest)
		return
	}
	if run := query.Get("run"); run != "" && run != s.run {
		after = 0
	}
	follow := query.Get("follow") == "1"
	if follow {
		defer s.followers.Add(-1)
		if s.followers.Add(1) > maxFollowers {
			http.Error(w, "too many clients follow the events", http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set(runHeader, s.run)
	s.stream(w, r, after, follow)
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, after uint64, follow bool) {
	to, lines := http.NewResponseController(w), json.NewEncoder(w)
	for {
		list, lost, more := s.Events.After(after)
		if lost > 0 {
			list = append([]events.Event{events.Forgotten(lost)}, list...)
		}
		to.SetWriteDeadline(time.Now().Add(writeLimit)) // an error shows at the write
		for _, e := range list {
			if lines.Encode(e) != nil {
				return // the client left or does not read
			}
			after = max(after, e.Seq)
		}
		if !follow || to.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			follow = false // what came meanwhile is the last
		case <-more:
		}
	}
}

// position is how far a reader of events has come: the last event that it read, and the daemon's run in which that has
// its number.
type position struct {
	run   string
	after uint64
}

// Events calls each with the events that the daemon keeps after the one numbered
// after. With follow it goes on with new ones until ctx ends or each fails.
func (c Client) Events(ctx context.Context, after uint64, follow bool, each func(events.Event) error) error {
	err := c.stream(ctx, &position{after: after}, follow, func() {}, each)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readerError is an error of each.
type readerError struct{ error }

func (e readerError) Unwrap() error { return e.error }

// stream reads the events after a position, and moves that. It calls opened once the daemon answers.
func (c Client) stream(ctx context.Context, at *position, follow bool, opened func(),
	each func(events.Event) error) error {
	query := url.Values{"after": {fmt.Sprint(at.after)}, "run": {at.run}}
	if follow {
		query.Set("follow", "1")
	}
	return c.request(ctx, http.MethodGet, "/v1/events?"+query.Encode(), func(r *http.Response) error {
		if run := r.Header.Get(runHeader); run != at.run {
			if at.run != "" {
				at.after = 0
			}
			at.run = run
		}
		opened()
		lines := json.NewDecoder(r.Body)
		for {
			var e events.Event
			switch err := lines.Decode(&e); {
			case err == io.EOF && !follow:
				return nil
			case err == io.EOF:
				return c.unreachable(errors.New("it has stopped"))
			case err != nil:
				return c.unreachable(err)
			}
			at.after = max(at.after, e.Seq)
			if err := each(e); err != nil {
				return readerError{err}
			}
		}
	})
}

// reconnectPause is how long Follow waits between two tries to reach a daemon that has stopped.
const reconnectPause = 200 * time.Millisecond

// Follow calls each with the events that the daemon keeps and then with new ones, until ctx ends or each
// fails. When the daemon stops it waits for the next one and goes on with that one's events. No event comes
// twice, and none is left out that a daemon still has. It calls connected with false when the connection is
// lost, and with true when it is back. A daemon that does not answer at the start is an error.
func (c Client) Follow(ctx context.Context, each func(events.Event) error, connected func(bool)) error {
	at, lost := position{}, false
	opened := func() {
		if lost {
			lost = false
			connected(true)
		}
	}
	for {
		err := c.stream(ctx, &at, true, opened, each)
		var reader readerError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &reader):
			return reader.error
		case cli.Code(err) != cli.NoDaemon || at.run == "":
			return err
		case !lost:
			lost = true
			connected(false)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnectPause):
		}
	}
}
