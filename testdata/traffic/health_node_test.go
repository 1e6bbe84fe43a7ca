package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// newCheckedNode prepares a whole lab whose svcproxy believes a mass failure: in a
// small lab nearly everything is one. Tests that use it run side by side, because
// they wait for probes most of the time.
func newCheckedNode(t *testing.T, main string) node {
	t.Helper()
	t.Parallel()
	return newNode(t, "health.massFailure = \"believe\"\n"+main)
}

// A checkedService is a service of one port with a health check.
type checkedService struct {
	name, vip string
	port      int    // of the endpoints; 0 = lab.LinePort
	protocol  string // "" = TCP
	endpoints string // "" = a port of each backend
	check     string // as TOML
	more      string // further lines
}

// text is the service as services.toml has it.
func (s checkedService) text() string {
	endpoints := s.endpoints
	if endpoints == "" {
		endpoints = fmt.Sprintf("[%q, %q, %q]", s.pod(1), s.pod(2), s.pod(3))
	}
	return fmt.Sprintf("[services.%s]\nclusterIP = %q\nports = [{ port = 80, targetPort = %d, protocol = %q }]\nendpoints = %s\nhealthCheck = %s\n%s\n",
		s.name, s.vip, s.targetPort(), cmp.Or(s.protocol, "TCP"), endpoints, s.check, s.more)
}

func textOf(services []checkedService) string {
	var b strings.Builder
	for _, s := range services {
		b.WriteString(s.text())
	}
	return b.String()
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// front is the service's address and port.
func (s checkedService) front() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(s.vip), 80)
}

// pod is the address of a backend, in the family of the service.
func (s checkedService) pod(n int) netip.Addr {
	if s.front().Addr().Is6() {
		return netip.MustParseAddr(fmt.Sprintf("fd00:2:%d::10", n))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.2.%d.10", n))
}

func (s checkedService) targetPort() int { return cmp.Or(s.port, lab.LinePort) }

// real is the real server of the service on a backend.
func (s checkedService) real(pod int) lab.Real {
	network := strings.ToLower(cmp.Or(s.protocol, "TCP"))
	return lab.Real{Network: network, Virtual: s.front(), Addr: netip.AddrPortFrom(s.pod(pod), uint16(s.targetPort()))}
}

// openPorts opens a TCP port on every backend; the first of them is pod1's.
func (n node) openPorts(t *testing.T, number int, serve func(*lab.Backend) func(net.Conn)) []*lab.Port {
	t.Helper()
	var ports []*lab.Port
	for _, b := range n.Backends {
		p, err := b.OpenPort(number, serve(b))
		must(t, err)
		ports = append(ports, p)
	}
	return ports
}

// lines is the good manner of a TCP port.
func lines(b *lab.Backend) func(net.Conn) { return b.AnswerLines }

// absent stands for the weight of a real server that is not there.
const absent = -1

// becomes waits until real servers get connections, or get none, and returns when
// the last of them did. A scheduler may keep none of weight 0, so absent is none.
func (n node) becomes(t *testing.T, limit time.Duration, up bool, reals ...lab.Real) time.Time {
	t.Helper()
	err := lab.Eventually(limit, func() error {
		weights, err := n.weights()
		if err != nil {
			return err
		}
		for _, r := range reals {
			if w, there := weights[r]; (w > 0) != up {
				return fmt.Errorf("%s of %s has weight %d, is there: %v, want it up: %v", r.Addr, r.Virtual, w, there, up)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Now()
}

// weights are those of all real servers: as IPVS has them, or as rules amount to. In mode userspace they are what svcproxy
// says of itself. That is what a test waits for; whether it is true, clients see.
func (n node) weights() (map[lab.Real]int, error) {
	if n.Mode != "userspace" {
		return n.Lab.Node.Weights()
	}
	time.Sleep(50 * time.Millisecond) // each look starts a program
	st, err := n.readStatus()
	if err != nil {
		return nil, err
	}
	weights := map[lab.Real]int{}
	for _, s := range st.Services {
		for _, v := range s.Virtuals {
			for _, e := range s.Endpoints {
				if e.Protocol == v.Protocol && e.Port == v.Port && !slices.Contains([]string{"unused", "missing"}, e.State) {
					weights[lab.Real{Network: v.Protocol, Virtual: v.Address, Addr: e.Address}] = e.Weight
				}
			}
		}
	}
	return weights, nil
}

// weightOf is the weight of a real server.
func (n node) weightOf(t *testing.T, real lab.Real) int {
	t.Helper()
	weights, err := n.weights()
	must(t, err)
	if w, ok := weights[real]; ok {
		return w
	}
	return absent
}

// getsWeight waits until a real server has a weight.
func (n node) getsWeight(t *testing.T, real lab.Real, want int) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		if w := n.weightOf(t, real); w != want {
			return fmt.Errorf("%s of %s has weight %d, want %d", real.Addr, real.Virtual, w, want)
		}
		return nil
	}))
}

// allUp waits until so many targets have answered, which are all, and none of them is in doubt.
func (n node) allUp(t *testing.T, targets int) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		if h := n.health(t); h.States["up"] != targets {
			return fmt.Errorf("of %d targets up are %+v", targets, h)
		}
		return nil
	}))
}

// A watch notes every change of a weight. It looks every 20 ms, and in mode userspace every 80 ms or so.
type watch struct {
	begin   time.Time
	stop    chan struct{}
	going   sync.WaitGroup
	mu      sync.Mutex
	changes []change
	err     error
	last    time.Time     // of the looks
	pause   time.Duration // the longest between two
}

// freely reports whether the machine let this process run all the time: times of others mean something then.
func (w *watch) freely() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pause < freePause
}

// unlessStarved returns a client that asks on one connection. A timeout on a starved machine is no error, but the
// client then asks no more: the next answer would be the one that it missed.
func (w *watch) unlessStarved(ask func() error) func() error {
	late := false
	return func() error {
		if late {
			return nil
		}
		err := ask()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !w.freely() {
			late = true
			return nil
		}
		return err
	}
}

// A change is a weight that was not as before; absent is a weight too.
type change struct {
	at      time.Time
	real    lab.Real
	was, is int
}

func (n node) watch(t *testing.T) *watch {
	t.Helper()
	was, err := n.weights()
	must(t, err)
	w := &watch{begin: time.Now(), stop: make(chan struct{})}
	if n.Mode == "iptables" || n.Mode == "nftables" {
		w.pause = time.Hour // it looks twice a second at most, see lab.Host.Weights
	}
	w.going.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			is, err := n.weights()
			w.note(was, is, err)
			if err != nil {
				return
			}
			was = is
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

func (w *watch) note(was, is map[lab.Real]int, err error) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	if !w.last.IsZero() {
		w.pause = max(w.pause, now.Sub(w.last))
	}
	w.last = now
	for r := range is {
		if _, had := was[r]; !had {
			w.changes = append(w.changes, change{now, r, absent, is[r]})
		} else if was[r] != is[r] {
			w.changes = append(w.changes, change{now, r, was[r], is[r]})
		}
	}
	for r := range was {
		if _, has := is[r]; !has && err == nil {
			w.changes = append(w.changes, change{now, r, was[r], absent})
		}
	}
}

// down waits until a real server gets no connections, and returns when that began
// after the time given.
func (w *watch) down(limit time.Duration, real lab.Real, after time.Time) (at time.Time, err error) {
	err = lab.Eventually(limit, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.changes {
			if c.real == real && c.is <= 0 && c.at.After(after) {
				at = c.at
				return w.err
			}
		}
		return fmt.Errorf("%s of %s gets connections", real.Addr, real.Virtual)
	})
	return at, err
}

// end ends the watch.
func (w *watch) end() {
	close(w.stop)
	w.going.Wait()
}

// wantNone ends the watch and wants no weight to have changed.
func (w *watch) wantNone(t *testing.T, when string) {
	t.Helper()
	w.end()
	must(t, w.err)
	for _, c := range w.changes {
		t.Errorf("%s, after %.2f s: %v has weight %d, had %d", when, c.at.Sub(w.begin).Seconds(), c.real, c.is, c.was)
	}
}

// askNew asks on a connection of its own, which it resets: IPVS forgets that soon.
func (n node) askNew(to netip.AddrPort, ask func(*lab.Conn) (lab.Answer, error)) (lab.Answer, error) {
	c, err := n.Client.Dial("tcp", to)
	if err != nil {
		return lab.Answer{}, err
	}
	defer c.Reset()
	return ask(c)
}

// wantOnly asks so many times on new connections, and wants an answer each time,
// from these backends and from each of them.
func (n node) wantOnly(t *testing.T, to netip.AddrPort, times int, ask func(*lab.Conn) (lab.Answer, error), backends ...string) {
	t.Helper()
	who, failed := map[string]int{}, 0
	times = tries(t, times)
	for range times {
		a, err := n.askNew(to, ask)
		if err != nil {
			if failed++; failed < 4 {
				t.Errorf("a new connection to %s: %v", to, err)
			}
			continue
		}
		if who[a.Backend]++; !slices.Contains(backends, a.Backend) {
			t.Errorf("a new connection to %s is with %s, want one of %s", to, a.Backend, backends)
			return
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d new connections to %s failed", failed, times, to)
	}
	for _, b := range backends {
		if who[b] == 0 {
			t.Errorf("%d new connections to %s, none is with %s: %v", times, to, b, who)
		}
	}
}

// hold opens connections until it has one with the backend, and keeps that until
// the test ends.
func (n node) hold(t *testing.T, to netip.AddrPort, backend string, ask func(*lab.Conn) (lab.Answer, error)) *lab.Conn {
	t.Helper()
	for range 60 { // some modes choose at random
		c, err := n.Client.Dial("tcp", to)
		must(t, err)
		if a, err := ask(c); err == nil && a.Backend == backend {
			t.Cleanup(func() { c.Close() })
			return c
		}
		c.Reset()
	}
	t.Fatalf("60 connections to %s and none with %s", to, backend)
	return nil
}

// eventually waits for a text in what a command of svcproxy prints.
func (n node) eventually(t *testing.T, limit time.Duration, command string, texts ...string) {
	t.Helper()
	err := lab.Eventually(limit, func() error {
		out, code := n.asks(t, strings.Fields(command)...)
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return fmt.Errorf("svcproxy %s does not say %q, exit code %d:\n%s", command, text, code, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
