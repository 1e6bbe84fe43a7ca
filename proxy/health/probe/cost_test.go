package probe

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/svcproxy/svcproxy/sources"
)

func TestTargetIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Target{}) + unsafe.Sizeof(&Target{}); size > 200 {
		t.Errorf("a target takes %d bytes", size)
	}
}

// TestTCPProbeAllocations counts without a server in this process: the kernel accepts, and nobody else.
func TestTCPProbeAllocations(t *testing.T) {
	const most = 12
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 1000); err != nil {
		t.Fatal(err)
	}
	own, _ := syscall.Getsockname(fd)
	target := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(own.(*syscall.SockaddrInet4).Port))
	what := &sources.Probe{Type: sources.CheckTCP, Timeout: 10 * time.Second}
	var p Prober
	var r Result
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if n := testing.AllocsPerRun(100, func() { r = p.Do(ctx, what, target, Meta{}) }); n > most || r.Outcome != OK {
		t.Errorf("%v allocations, want %d at most; %v", n, most, r)
	}
}

func TestLateQuantile(t *testing.T) {
	var s Stats
	for range 98 {
		s.start(time.Millisecond)
	}
	s.start(150 * time.Millisecond)
	s.start(time.Minute)
	for q, want := range map[float64]time.Duration{0.5: 5 * time.Millisecond, 0.98: 5 * time.Millisecond, 0.99: 200 * time.Millisecond, 1: time.Minute} {
		if got := s.LateQuantile(q); got != want {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
}

func BenchmarkTLSProbe(b *testing.B) {
	own, _ := certificate(b, time.Now(), time.Now().Add(time.Hour))
	target := serveTLS(b, &tls.Config{Certificates: []tls.Certificate{own}}, hangs)
	benchmarkProbe(b, sources.Probe{Type: sources.CheckTLS}, target)
}

func BenchmarkHTTPProbe(b *testing.B) {
	target := httpServer(b, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	benchmarkProbe(b, sources.Probe{Type: sources.CheckHTTP}, target)
}

func BenchmarkTCPProbe(b *testing.B) {
	benchmarkProbe(b, sources.Probe{Type: sources.CheckTCP}, serve(b, func(net.Conn) {}))
}

// benchmarkProbe measures probe and server together.
func benchmarkProbe(b *testing.B, what sources.Probe, target netip.AddrPort) {
	b.ReportAllocs()
	what.Timeout = 10 * time.Second
	var p Prober
	for b.Loop() {
		if r := p.Do(b.Context(), &what, target, Meta{}); r.Outcome != OK {
			b.Fatal(r)
		}
	}
}
