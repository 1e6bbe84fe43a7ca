package relay

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// through runs a benchmark against a server directly and through a relay.
func through(b *testing.B, handle func(*net.TCPConn), run func(*testing.B, netip.AddrPort)) {
	at := backend(b, kernel.IPv4, handle)
	b.Run("direct", func(b *testing.B) { run(b, at) })
	for _, how := range []string{"relay", "relay-buffers"} {
		b.Run(how, func(b *testing.B) {
			r := newRelay(b, Options{})
			if how == "relay-buffers" {
				r.pipes.disable()
			}
			v := virtual(b, kernel.TCP, kernel.IPv4, "rr")
			serve(b, r, v, at)
			run(b, v.Key.AddrPort())
			r.Close()
		})
	}
}

// BenchmarkConnections is one connection after the other from 16 clients: connect, one byte there
// and back, close.
func BenchmarkConnections(b *testing.B) {
	through(b, echo, func(b *testing.B, to netip.AddrPort) {
		var left atomic.Int64
		left.Store(int64(b.N))
		var all sync.WaitGroup
		b.ResetTimer()
		for range 16 {
			all.Go(func() {
				byte1 := make([]byte, 1)
				for left.Add(-1) >= 0 {
					c, err := net.Dial("tcp", to.String())
					if err != nil {
						b.Error(err)
						return
					}
					c.Write(byte1)
					if _, err := io.ReadFull(c, byte1); err != nil {
						b.Error(err)
					}
					reset(c.(*net.TCPConn)) // leaves no port in TIME_WAIT
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "conns/s")
	})
}

// BenchmarkRequests is one request of 100 bytes after the other on 16 connections.
func BenchmarkRequests(b *testing.B) {
	through(b, echo, func(b *testing.B, to netip.AddrPort) {
		var left atomic.Int64
		left.Store(int64(b.N))
		var all sync.WaitGroup
		for range 16 {
			c := dial(b, to)
			all.Go(func() {
				buf := make([]byte, 100)
				for left.Add(-1) >= 0 {
					c.Write(buf)
					if _, err := io.ReadFull(c, buf); err != nil {
						b.Error(err)
						return
					}
				}
				c.Close()
			})
		}
		b.ResetTimer()
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	})
}

// BenchmarkBytes is one connection that sends as fast as it can; an op is 1 MiB.
func BenchmarkBytes(b *testing.B) {
	sink := func(c *net.TCPConn) {
		io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 1<<20))
	}
	through(b, sink, func(b *testing.B, to netip.AddrPort) {
		c := dial(b, to)
		buf := make([]byte, 1<<20)
		b.SetBytes(1 << 20)
		b.ResetTimer()
		for range b.N {
			if _, err := c.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
		c.CloseWrite()
		io.Copy(io.Discard, c)
	})
}

// BenchmarkDatagrams is one request of 100 bytes after the other in 4 flows.
func BenchmarkDatagrams(b *testing.B) {
	at := echoUDP(b, kernel.IPv4)
	run := func(b *testing.B, to netip.AddrPort) {
		var left atomic.Int64
		left.Store(int64(b.N))
		var all sync.WaitGroup
		for range 4 {
			c := dialUDP(b, to)
			all.Go(func() {
				in, out := make([]byte, 1000), make([]byte, 100)
				for left.Add(-1) >= 0 {
					c.Write(out)
					if _, err := c.Read(in); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	}
	b.Run("direct", func(b *testing.B) { run(b, at) })
	b.Run("relay", func(b *testing.B) {
		r := newRelay(b, Options{})
		v := virtual(b, kernel.UDP, kernel.IPv4, "rr")
		serve(b, r, v, at)
		run(b, v.Key.AddrPort())
		r.Close()
	})
}

// BenchmarkPick is a choice among 1,000 real servers.
func BenchmarkPick(b *testing.B) {
	for _, scheduler := range kernel.RelaySchedulers {
		b.Run(scheduler, func(b *testing.B) {
			weights := make([]uint32, 1000)
			for i := range weights {
				weights[i] = uint32(1 + i%3)
			}
			s := &service{r: &Relay{limits: defaultLimits}, virtual: kernel.Virtual{Scheduler: scheduler}, endpoints: endpointsOf(weights...)}
			for b.Loop() {
				s.leave(s.pick(netip.AddrPort{}, nil), nil)
			}
		})
	}
}

// BenchmarkApply adds and removes 1,000 virtual servers with 10 real servers each.
func BenchmarkApply(b *testing.B) {
	var up, down []kernel.Op
	at := netip.MustParseAddr("198.18.0.1")
	for range 1000 {
		v := kernel.Virtual{Key: kernel.VirtualKey{Addr: at, Port: 8080, Proto: kernel.TCP}, Scheduler: "rr", Netmask: 32}
		at = at.Next()
		up, down = append(up, add(v)), append(down, remove(v))
		for i := range 10 {
			up = append(up, add(target(v, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)}), 80), 1)))
		}
	}
	r := newRelay(b, Options{})
	for b.Loop() {
		apply(b, r, up...)
		apply(b, r, down...)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "us/virtual")
}
