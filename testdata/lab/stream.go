package lab

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Stream sends datagrams from one socket at a steady pace, answered or not, as
// a client that waits for nothing does.
type Stream struct {
	conn  *Conn
	stop  chan struct{}
	going sync.WaitGroup

	mu    sync.Mutex
	tally Tally
}

// A Tally is what became of a stream's datagrams.
type Tally struct {
	Sent     int
	Refused  int      // the ICMP errors that came back
	Answered []string // by which backends, in order
}

// Last is the backend that answered last.
func (t Tally) Last() string {
	if len(t.Answered) == 0 {
		return ""
	}
	return t.Answered[len(t.Answered)-1]
}

// Lost are the datagrams that nothing came back for.
func (t Tally) Lost() int { return t.Sent - t.Refused - len(t.Answered) }

// Stream starts sending a datagram each interval; c must be UDP and is the
// stream's own from then on.
func (c *Conn) Stream(interval time.Duration) *Stream {
	s := &Stream{conn: c, stop: make(chan struct{})}
	c.SetDeadline(time.Time{})
	s.going.Go(func() { s.send(interval) })
	s.going.Go(s.receive)
	return s
}

// Tally is what has happened so far.
func (s *Stream) Tally() Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tally
}

// Stop stops sending; answers may still come for a second.
func (s *Stream) Stop() {
	close(s.stop)
	s.conn.SetReadDeadline(time.Now().Add(time.Second))
}

// End waits for the last answers after Stop, and closes the socket.
func (s *Stream) End() Tally {
	s.going.Wait()
	s.conn.Close()
	return s.Tally()
}

func (s *Stream) send(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		// Counted first: an answer may be faster than we are.
		s.count(func(t *Tally) { t.Sent++ })
		if _, err := s.conn.Write([]byte("\n")); err != nil {
			s.count(func(t *Tally) { t.Sent-- })
			s.failed(err)
		}
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
	}
}

func (s *Stream) receive() {
	buf := make([]byte, 1500)
	for {
		n, err := s.conn.Read(buf)
		if err == nil {
			var a Answer
			if a, err = parseAnswer(buf[:n]); err == nil {
				s.count(func(t *Tally) { t.Answered = append(t.Answered, a.Backend) })
			}
		}
		if err != nil && !s.failed(err) {
			return
		}
	}
}

// failed reports whether an error is one that a stream goes on after.
func (s *Stream) failed(err error) bool {
	refused := errors.Is(err, unix.ECONNREFUSED)
	if refused {
		s.count(func(t *Tally) { t.Refused++ })
	}
	return refused
}

func (s *Stream) count(f func(*Tally)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.tally)
}
