package relay

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

func TestDrain(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	a, b := named(t, kernel.IPv4), named(t, kernel.IPv4)
	serve(t, r, v, a)
	c := dial(t, v.Key.AddrPort())
	who(t, c)
	apply(t, r, add(target(v, b, 1)), change(target(v, a, 0)))
	for range 10 {
		if got := visit(t, v.Key.AddrPort()); got != b {
			t.Errorf("%v answers while it drains", got)
		}
	}
	say(t, c, "still here")
	if got := conns(r, target(v, a, 0)); got != (kernel.Conns{Active: 1}) {
		t.Errorf("%+v", got)
	}
	apply(t, r, change(target(v, a, 1)))
	say(t, c, "and back")
	apply(t, r, remove(target(v, a, 1)))
	wantReset(t, c)
	// The same address is another real server.
	apply(t, r, add(target(v, a, 1)))
	if got := conns(r, target(v, a, 1)); got != (kernel.Conns{}) {
		t.Errorf("added again: %+v", got)
	}
}

func TestRemoveVirtual(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	c := dial(t, v.Key.AddrPort())
	say(t, c, "hello")
	apply(t, r, remove(v))
	wantReset(t, c)
	if _, err := net.Dial("tcp", v.Key.AddrPort().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
	if got := r.Counters(); got.Total.Conns != 1 || len(got.Virtuals) != 0 {
		t.Errorf("%+v", got)
	}
	apply(t, r, add(v)) // at the same port
}

func TestLinger(t *testing.T) {
	r := newRelay(t, Options{Linger: 5 * time.Second})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	c := dial(t, v.Key.AddrPort())
	say(t, c, "hello")
	begin := time.Now()
	apply(t, r, remove(v))
	say(t, c, "still here")
	wantReset(t, c)
	if took := time.Since(begin); took < 5*time.Second {
		t.Errorf("reset after %v", took)
	}
}

func TestShutdown(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	stays, goes := dial(t, v.Key.AddrPort()), dial(t, v.Key.AddrPort())
	say(t, stays, "hello")
	say(t, goes, "hello")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Shutdown(ctx)
	}()
	eventually(t, "closed", func() bool {
		c, err := net.Dial("tcp", v.Key.AddrPort().String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	say(t, stays, "still here")
	goes.Close()
	eventually(t, "ended", func() bool { return r.Stats().Streams == 1 })
	cancel()
	<-done
	wantReset(t, stays)
}

// Shutdown ends by itself when no connection is left.
func TestShutdownIdle(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	c := dial(t, v.Key.AddrPort())
	say(t, c, "hello")
	time.AfterFunc(50*time.Millisecond, func() { c.Close() })
	r.Shutdown(t.Context())
}
