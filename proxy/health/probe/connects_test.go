package probe

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// probing runs a runner until the test ends and returns its results. Targets are probed every minInterval.
func probing(t *testing.T, targets ...*Target) chan Result {
	results := make(chan Result, 1000)
	r := NewRunner(new(Prober), func(_ *Target, r Result) Next {
		select {
		case results <- r:
		default:
		}
		return Next{After: minInterval}
	}, Limits{})
	for _, x := range targets {
		r.Add(x, minInterval)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return results
}

// TestRunnerConnectsLikeProber compares the connections that a runner makes with those of Prober.Do, three in a row
// each: the second and the third use the socket of the first again if that was ok.
func TestRunnerConnectsLikeProber(t *testing.T) {
	six := closed(t)
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		defer l.Close()
		six = l.Addr().(*net.TCPAddr).AddrPort()
	}
	ok := serve(t, hangs)
	for _, test := range []struct {
		name   string
		what   sources.Probe
		target netip.AddrPort
	}{
		{"ok", sources.Probe{}, ok},
		{"mapped", sources.Probe{}, netip.AddrPortFrom(netip.AddrFrom16(ok.Addr().As16()), ok.Port())},
		{"IPv6", sources.Probe{}, six},
		{"refused", sources.Probe{}, closed(t)},
		{"timeout", sources.Probe{Timeout: short}, fullListener(t)},
		{"unreachable", sources.Probe{}, netip.MustParseAddrPort("255.255.255.255:80")},
		{"source and interface", sources.Probe{Source: netip.MustParseAddr("127.0.0.77"), Interface: "lo"}, ok},
		{"mark", sources.Probe{Mark: 1}, ok},
		{"source that we lack", sources.Probe{Source: netip.MustParseAddr("192.0.2.1")}, ok},
		{"interface that we lack", sources.Probe{Interface: "none0"}, ok},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.what.Type = sources.CheckTCP
			if test.what.Timeout == 0 {
				test.what.Timeout = 10 * time.Second
			}
			want := do(t, test.what, test.target)
			results := probing(t, &Target{Probe: &test.what, Address: test.target})
			for n := 0; n < 3; {
				got := <-results
				if got.Detail == tooLate { // the machine is busy
					continue
				}
				n++
				if got.String() != want.String() || got.Duration <= 0 || got.Outcome == Timeout && got.Duration < short {
					t.Errorf("%v after %v, Prober says %v", got, got.Duration, want)
				}
			}
		})
	}
}

// TestServerIsNotWoken counts the connections that a server sees. It sees one if this process takes 200 ms from the
// connect to the reset.
func TestServerIsNotWoken(t *testing.T) {
	const probes = 20
	var accepted atomic.Int64
	target := serve(t, func(net.Conn) { accepted.Add(1) })
	results := probing(t, &Target{Probe: tcpProbe, Address: target})
	for range probes {
		if r := <-results; r.Outcome != OK && !r.Void() {
			t.Errorf("%v", r)
		}
	}
	if n := accepted.Load(); n > probes/2 {
		t.Errorf("the server saw %d connections of %d probes", n, probes)
	}
}

// A congestion control that cannot be set does not matter.
func TestRunnerWithoutCongestionControl(t *testing.T) {
	was := congestion
	t.Cleanup(func() { congestion = was }) // after the runner's end
	congestion = "absent"
	if r := <-probing(t, &Target{Probe: tcpProbe, Address: serve(t, hangs)}); r.Outcome != OK {
		t.Errorf("%v", r)
	}
}

func TestRunnerWithoutDescriptors(t *testing.T) {
	target := serve(t, hangs)
	noDescriptors(t)
	if r := <-probing(t, &Target{Probe: tcpProbe, Address: target}); r.String() != "void: socket: too many open files" {
		t.Errorf("%v", r)
	}
}

// TestRunnerLeavesNoSockets ends a runner with connections that are made, refused and pending.
func TestRunnerLeavesNoSockets(t *testing.T) {
	full, good, bad := fullListener(t), serve(t, hangs), closed(t)
	descriptors := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	before := descriptors()
	t.Run("", func(t *testing.T) {
		results := probing(t, &Target{Probe: tcpProbe, Address: full}, &Target{Probe: tcpProbe, Address: good}, &Target{Probe: tcpProbe, Address: bad})
		for seen := map[Outcome]bool{}; !seen[OK] || !seen[Refused]; {
			seen[(<-results).Outcome] = true
		}
	})
	if after := descriptors(); after != before {
		t.Errorf("%d descriptors, before the runner %d", after, before)
	}
}

// TestLateDeadline has connections of which the deadline is seen late.
func TestLateDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := new(Prober).attempt(ctx, &sources.Probe{Timeout: time.Minute}, netip.AddrPort{}, Meta{})
	for late, want := range map[time.Duration]string{time.Second: "timeout: connect", 31 * time.Second: "void: this process was late"} {
		a.deadline = time.Now().Add(-late)
		if got := a.judge(result(Timeout, "connect")); got.String() != want {
			t.Errorf("%v late: %v", late, got)
		}
		if got := a.judge(Result{Outcome: OK}); got.Outcome != OK {
			t.Errorf("%v late: %v, but the answer came", late, got)
		}
	}
	cancel()
	if got := a.judge(Result{Outcome: Refused}); got.String() != "void: cancelled" {
		t.Error(got)
	}
}
