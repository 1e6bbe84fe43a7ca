package traffic

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

const late = time.Second

// lateIn is how long after its deadline a drain may still end in a test's mode. The loop wakes at the deadline, but a busy
// machine may let svcproxy wait. In mode iptables an iptables-restore of another change may be running then.
func lateIn(t *testing.T) time.Duration {
	if modeOf(t) == "iptables" {
		return 30 * time.Second
	}
	return 10 * late
}

// A span is the time that something took which this process only waited for: it
// happened at one moment in there.
type span struct{ from, to time.Time }

// timed does what takes the span.
func timed(what func()) span {
	from := time.Now()
	what()
	return span{from, time.Now()}
}

// A chat is a client that asks at a steady pace on a connection of its own, until
// that fails or the chat is ended.
type chat struct {
	*lab.Conn
	stop, over chan struct{}
	asked      time.Time     // when its last question began
	ended      time.Time     // when that failed
	err        error         // why
	slowest    time.Duration // longest time from one question to the next
}

func (n node) chat(t *testing.T, to, backend string) *chat {
	t.Helper()
	c := &chat{Conn: dialBackend(t, n, netip.MustParseAddrPort(to), backend), stop: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(c.over)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			c.asked = time.Now()
			if _, err := c.Ask(); err != nil {
				c.ended, c.err = time.Now(), err
				return
			}
			select {
			case <-c.stop:
				return
			case <-tick.C:
			}
			c.slowest = max(c.slowest, time.Since(c.asked))
		}
	}()
	return c
}

// wantReset wants the connection to be reset so long after its backend was removed.
func (c *chat) wantReset(t *testing.T, removed span, after time.Duration) {
	t.Helper()
	select {
	case <-c.over:
	case <-time.After(after + 5*time.Minute):
		t.Fatalf("a connection to %s that sends is not reset %v after its backend was removed", c.RemoteAddr(), time.Since(removed.to))
	}
	// A question that its backend has when the drain ends gets no answer, and no reset: the client waits, and sends nothing. On
	// an emulated processor backends take long to answer.
	if slow := emulated() && errors.Is(c.err, os.ErrDeadlineExceeded); !wasReset(c.err) && !slow {
		t.Errorf("a connection to %s ended by %v, want a reset", c.RemoteAddr(), c.err)
	}
	if longest, shortest := c.ended.Sub(removed.from), c.asked.Sub(removed.to); longest < after || shortest > after+lateIn(t)+c.slowest {
		t.Errorf("a connection to %s was reset %v to %v after its backend was removed, want %v; it asked each %v or faster",
			c.RemoteAddr(), shortest, longest, after, c.slowest)
	}
}

// wantAlive ends the chat and wants it to have lived until now.
func (c *chat) wantAlive(t *testing.T) {
	t.Helper()
	close(c.stop)
	<-c.over
	if c.err != nil {
		t.Errorf("a connection to %s that was to live ended by %v", c.RemoteAddr(), c.err)
	}
}

func wasReset(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// At the deadline a drain ends for connections that send; idle ones end when
// they next send. In mode iptables their tracked connections are removed. Services can have their own deadlines. An endpoint that
// returns in time is not affected by the old deadline.
func TestDrainEndsAtItsDeadline(t *testing.T) { endsDrains(t, "", "10s") }

// In mode iptables a sync may take longer than 10 s on a busy machine, so the endpoint that returns in time has more.
func TestDrainEndsAtItsDeadlineInModeIPTables(t *testing.T) { endsDrains(t, modeIPTables, "10m") }

func endsDrains(t *testing.T, main, returns string) {
	const timeout = 3 * time.Second
	n := newNode(t, main+`ipvs.drainTimeout = "3s"`)
	service := func(name, v4, v6 string, endpoints string) string {
		return "[services." + name + "]\nclusterIPs = [\"" + v4 + "\", \"" + v6 + "\"]\nports = [{ port = 80, targetPort = 7000 }]\nendpoints = " + endpoints + "\n"
	}
	const both, one = `["10.2.1.10", "10.2.2.10", "fd00:2:1::10", "fd00:2:2::10"]`, `["10.2.2.10", "fd00:2:2::10"]`
	table := func(endpoints, returning string) string {
		return service("web", "10.96.0.20", "fd00:96::20", endpoints) +
			service("patient", "10.96.0.21", "fd00:96::21", endpoints) + "drainTimeout = \"10m\"\n" +
			service("hasty", "10.96.0.22", "fd00:96::22", endpoints) + "drainTimeout = \"1s\"\n" +
			service("endless", "10.96.0.23", "fd00:96::23", endpoints) + "drainTimeout = \"0s\"\n" +
			service("leaving", "10.96.0.25", "fd00:96::25", endpoints) + "drainTimeout = \"10s\"\n" +
			service("returning", "10.96.0.24", "fd00:96::24", returning) + "drainTimeout = \"" + returns + "\"\n"
	}
	n.start(t, table(both, both))
	busy := []*chat{n.chat(t, "10.96.0.20:80", "pod1"), n.chat(t, "[fd00:96::20]:80", "pod1")}
	hasty, leaving := n.chat(t, "10.96.0.22:80", "pod1"), n.chat(t, "10.96.0.25:80", "pod1")
	alive := []*chat{
		n.chat(t, "10.96.0.21:80", "pod1"), n.chat(t, "[fd00:96::21]:80", "pod1"), n.chat(t, "10.96.0.23:80", "pod1"),
		n.chat(t, "10.96.0.24:80", "pod1"), n.chat(t, "[fd00:96::24]:80", "pod1"), n.chat(t, "10.96.0.20:80", "pod2"),
	}
	idle := []*lab.Conn{dialBackend(t, n, netip.MustParseAddrPort("10.96.0.20:80"), "pod1"), dialBackend(t, n, netip.MustParseAddrPort("[fd00:96::20]:80"), "pod1")}

	removed := timed(func() { n.serve(t, table(one, one)) })
	n.serve(t, table(one, both))
	hasty.wantReset(t, removed, time.Second)
	for _, c := range busy {
		c.wantReset(t, removed, timeout)
	}
	for virtual, want := range map[string]string{
		"10.96.0.20:80": "", "[fd00:96::20]:80": "", "10.96.0.21:80": "0", "10.96.0.22:80": "", "10.96.0.23:80": "0", "10.96.0.24:80": "1",
	} {
		real := "10.2.1.10:7000"
		if strings.HasPrefix(virtual, "[") {
			real = "[fd00:2:1::10]:7000"
		}
		if ruled(t) {
			break // which has no weights
		}
		if w := weightOf(t, n, virtual, real); w != want {
			t.Errorf("%s has pod1 at weight %q, want %q", virtual, w, want)
		}
	}
	for _, c := range idle {
		if _, err := c.Ask(); !wasReset(err) {
			t.Errorf("an idle connection to %s wants to be reset at its next packet, got %v", c.RemoteAddr(), err)
		}
	}
	leaving.wantReset(t, removed, 10*time.Second) // as those to the returning one would have been
	for _, c := range alive {
		c.wantAlive(t)
	}
}
