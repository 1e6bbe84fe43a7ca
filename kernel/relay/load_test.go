package relay

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// Connections come and go while everything changes. Each is served whole or fails visibly.
func TestChurn(t *testing.T) {
	r := newRelay(t, Options{Linger: 20 * time.Millisecond})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	reals := []kernel.Real{target(v, named(t, kernel.IPv4), 1), target(v, named(t, kernel.IPv4), 1), target(v, closedPort(t, kernel.IPv4), 1)}
	serve(t, r, v, reals[0].Key.Addr)
	stop := make(chan struct{})
	var served, failed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if exchange(t, v.Key.AddrPort()) {
					served.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(time.Millisecond) {
		disturb(r, random, &v, reals)
	}
	close(stop)
	all.Wait()
	t.Logf("%d served, %d failed", served.Load(), failed.Load())
	if served.Load() == 0 {
		t.Error("none was served")
	}
	eventually(t, "all ended", func() bool { return r.Stats().Streams == 0 })
	for _, o := range r.Counters().Reals {
		if o.Active != 0 || o.Inactive != 0 {
			t.Errorf("%+v", o)
		}
	}
}

// exchange sends 10,000 bytes and reads them back. It is false after a reset or a refusal.
func exchange(t *testing.T, to netip.AddrPort) bool {
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	want := make([]byte, 10_000)
	_, err = c.Write(want)
	err = errors.Join(err, c.(*net.TCPConn).CloseWrite())
	got, err2 := io.ReadAll(c) // the kernel reports a reset once only
	err = errors.Join(err, err2)
	switch {
	case err == nil && len(got) > len(want):
		return true
	case err == nil:
		t.Errorf("an end after %d bytes", len(got))
	case !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ENOTCONN):
		t.Error(err)
	}
	return false
}

// disturb changes something. Ops may be refused.
func disturb(r *Relay, random *rand.Rand, v *kernel.Virtual, reals []kernel.Real) {
	real := reals[random.IntN(len(reals))]
	real.Weight = uint32(random.IntN(3))
	switch random.IntN(12) {
	case 0, 1:
		r.Apply([]kernel.Op{remove(*v)})
		r.Apply([]kernel.Op{add(*v), add(reals[0]), add(reals[1])})
	case 2, 3:
		r.Apply([]kernel.Op{remove(real)})
	case 4:
		v.Scheduler = kernel.RelaySchedulers[random.IntN(len(kernel.RelaySchedulers))]
		v.Flags ^= kernel.FlagPersistent
		v.Timeout = 1
		r.Apply([]kernel.Op{change(*v)})
	case 5, 6, 7:
		r.Apply([]kernel.Op{add(real)})
	case 8:
		r.Counters()
		r.Read()
		r.Traffic([]kernel.VirtualKey{v.Key})
	default:
		r.Apply([]kernel.Op{change(real)})
	}
}

func TestThousandsOfConnections(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 300
	}
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "wlc")
	serve(t, r, v, named(t, kernel.IPv4), named(t, kernel.IPv4), named(t, kernel.IPv4))
	begin := time.Now()
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				c, err := net.Dial("tcp", v.Key.AddrPort().String())
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(10 * time.Second))
				c.Write([]byte("x"))
				c.(*net.TCPConn).CloseWrite()
				if _, err := io.ReadAll(c); err != nil {
					t.Error(err)
				}
				c.Close()
			}
		})
	}
	all.Wait()
	t.Logf("%d connections in %v", n, time.Since(begin))
	if got := r.Counters(); got.Total.Conns != uint64(n) || got.Total.InBytes != uint64(n) {
		t.Errorf("%+v", got.Total)
	}
	eventually(t, "all ended", func() bool { return r.Stats().Streams == 0 })
	for _, o := range r.Counters().Reals {
		if o.Active != 0 || o.Inactive != 0 {
			t.Errorf("%+v", o)
		}
	}
}
