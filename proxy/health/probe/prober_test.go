package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// serve runs a TCP server that calls handle for each connection and closes it afterwards.
func serve(t testing.TB, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(20 * time.Second))
				handle(c)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// says returns a server's handler that reads a request, writes text and ends its side of the connection. Closing the
// connection would reset it if the peer has sent more.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		c.Read(make([]byte, 4096))
		io.WriteString(c, text)
		c.(interface{ CloseWrite() error }).CloseWrite()
		hangs(c)
	}
}

// hangs is a server's handler that answers nothing until the peer has gone.
func hangs(c net.Conn) { io.Copy(io.Discard, c) }

// endless returns a handler that writes first, and then text until the peer has gone.
func endless(first, text string) func(net.Conn) {
	block := bytes.Repeat([]byte(text), max(1, 4096/len(text)))
	return func(c net.Conn) {
		c.Read(make([]byte, 4096))
		io.WriteString(c, first)
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
}

// drips returns a handler that writes one byte of text every 20 ms.
func drips(text string) func(net.Conn) {
	return func(c net.Conn) {
		for i := 0; ; i++ {
			if _, err := io.WriteString(c, text[i%len(text):][:1]); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// closed returns an address of which the port is closed.
func closed(t testing.TB) netip.AddrPort {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// do probes once. A probe without a timeout gets a generous one: the machine may be busy.
func do(t testing.TB, what sources.Probe, target netip.AddrPort) Result {
	t.Helper()
	if what.Timeout == 0 {
		what.Timeout = 10 * time.Second
	}
	p := Prober{ExecDirs: []string{"/bin"}}
	r := p.Do(context.Background(), &what, target, Meta{Service: "web", Weight: 3})
	if len(r.Detail) > maxDetail {
		t.Errorf("a detail of %d bytes: %q", len(r.Detail), r.Detail)
	}
	return r
}

// expect probes once and compares the text of the result. Instead of a text, want may be its start and "...".
func expect(t testing.TB, want string, what sources.Probe, target netip.AddrPort) Result {
	t.Helper()
	r := do(t, what, target)
	for n := 0; n < 10 && r.Detail == tooLate; n++ { // the machine is busy
		r = do(t, what, target)
	}
	if start, ok := strings.CutSuffix(want, "..."); r.String() != want && !(ok && strings.HasPrefix(r.String(), start)) {
		t.Errorf("%s %v: got %q, want %q", what.Type, target, r, want)
	}
	return r
}

// short is a timeout for probes that end by it.
const short = 300 * time.Millisecond

func TestTCP(t *testing.T) {
	tcp := sources.Probe{Type: sources.CheckTCP}
	expect(t, "ok", tcp, serve(t, hangs))
	expect(t, "refused", tcp, closed(t))

	talk := tcp
	talk.Send, talk.Expect = "PING\r\n", "+PONG"
	expect(t, "ok", talk, serve(t, says("+PONG\r\n")))
	expect(t, "answer", talk, serve(t, says("-ERR\r\n")))
	expect(t, "closed: answer", talk, serve(t, says("")))
	expect(t, "answer", talk, serve(t, endless("", "x")))
	reset := serve(t, func(c net.Conn) { c.Read(make([]byte, 1)); c.(*net.TCPConn).SetLinger(0) })
	expect(t, "reset: answer", talk, reset)
	talk.Timeout = short
	expect(t, "timeout: answer", talk, serve(t, hangs))
	expect(t, "timeout: answer", talk, serve(t, drips("x")))
}

func TestTCPOverIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6: ", err)
	}
	defer l.Close()
	expect(t, "ok", sources.Probe{Type: sources.CheckTCP, Source: netip.IPv6Loopback()}, l.Addr().(*net.TCPAddr).AddrPort())
}

func TestProbeEndsByReset(t *testing.T) {
	end := make(chan error, 1)
	target := serve(t, func(c net.Conn) {
		_, err := c.Read(make([]byte, 1))
		end <- err
	})
	expect(t, "ok", sources.Probe{Type: sources.CheckTCP}, target)
	if err := <-end; err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("the server saw %v, want a reset", err)
	}
}

func TestSourceAddress(t *testing.T) {
	from := make(chan string, 1)
	target := serve(t, func(c net.Conn) { from <- c.RemoteAddr().(*net.TCPAddr).IP.String() })
	expect(t, "ok", sources.Probe{Type: sources.CheckTCP, Source: netip.MustParseAddr("127.0.0.77"), Interface: "lo"}, target)
	if got := <-from; got != "127.0.0.77" {
		t.Errorf("probed from %s", got)
	}
}

func TestOwnFaultsAreVoid(t *testing.T) {
	target := serve(t, hangs)
	expect(t, "void: bind: cannot assign requested address", sources.Probe{Type: sources.CheckTCP, Source: netip.MustParseAddr("192.0.2.1")}, target)
	expect(t, "void: setsockopt: no such device", sources.Probe{Type: sources.CheckTCP, Interface: "none0"}, target)
	expect(t, "void: unknown type ftp", sources.Probe{Type: "ftp"}, target)
	expect(t, "void: CA file...", sources.Probe{Type: sources.CheckTLS, Verify: true, CAFile: "/nonexistent"}, target)
	if os.Geteuid() != 0 {
		expect(t, "void: setsockopt: operation not permitted", sources.Probe{Type: sources.CheckTCP, Mark: 1}, target)
	}
}

// The kernel's answer decides whose fault a failed probe is. An error of this machine takes no endpoint out.
func TestFaultsOfThisMachineAndOfTheTarget(t *testing.T) {
	own := []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.EAGAIN, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM,
	}
	if len(ownFaults) != len(own) {
		t.Errorf("%d errors are this machine's, and the test knows %d", len(ownFaults), len(own))
	}
	for _, errno := range own {
		for _, err := range []error{errno, fmt.Errorf("sending: %w", errno), &net.OpError{Err: os.NewSyscallError("connect", errno)}} {
			if r := failure(err, "connect"); !r.Void() || r.Detail != errno.Error() {
				t.Errorf("%v: %v, want void: %v", err, r, errno)
			}
		}
	}
	for errno, want := range map[syscall.Errno]string{
		syscall.ECONNREFUSED: "refused",
		syscall.ETIMEDOUT:    "timeout: connect",
		syscall.ECONNRESET:   "reset: connect",
		syscall.EPIPE:        "reset: connect",
		syscall.ECONNABORTED: "reset: connect",
		syscall.EHOSTUNREACH: "unreachable: no route to host",
		syscall.ENETUNREACH:  "unreachable: network is unreachable",
		syscall.EACCES:       "unreachable: permission denied", // a route of type prohibit
		syscall.EINVAL:       "unreachable: invalid argument",  // a route of type blackhole
		syscall.ENOPROTOOPT:  "unreachable: protocol not available",
	} {
		if r := failure(os.NewSyscallError("connect", errno), "connect"); r.String() != want {
			t.Errorf("%v: %v, want %s", errno, r, want)
		}
	}
	// Any error before the connect is this machine's, even one that the target could cause later.
	if r := failure(os.NewSyscallError("bind", syscall.EACCES), "connect"); !r.Void() {
		t.Errorf("bind: %v", r)
	}
}

func TestCancelledIsVoid(t *testing.T) {
	accepted := make(chan bool, 1)
	target := serve(t, func(c net.Conn) { accepted <- true; hangs(c) })
	for _, what := range []sources.Probe{
		{Type: sources.CheckHTTP}, {Type: sources.CheckTLS}, {Type: sources.CheckGRPC}, {Type: sources.CheckAgent},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-accepted
			cancel()
		}()
		what.Timeout = time.Minute
		if r := new(Prober).Do(ctx, &what, target, Meta{}); r.String() != "void: cancelled" {
			t.Errorf("%s: %v", what.Type, r)
		}
	}
}

func TestUnknownErrnoTexts(t *testing.T) {
	for _, o := range Outcomes() {
		if o.String() == "unknown" || o.String() == "" {
			t.Errorf("outcome %d has no text", o)
		}
	}
}

func TestTrace(t *testing.T) {
	own, _ := certificate(t, time.Now(), time.Now().Add(time.Hour))
	target := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{own}}, says("HTTP/1.1 200 OK\r\n\r\n"))
	var steps []string
	last := time.Duration(0)
	p := Prober{Trace: func(step string, after time.Duration) {
		if steps = append(steps, step); after < last {
			t.Errorf("%s after %v, the step before it after %v", step, after, last)
		}
		last = after
	}}
	p.Do(t.Context(), &sources.Probe{Type: sources.CheckHTTPS, Timeout: 10 * time.Second}, target, Meta{})
	if got := strings.Join(steps, ", "); got != "connected, TLS established, sent, ended" {
		t.Error(got)
	}
}

// TestPeerThatNeverAccepts fills the queue of a listener: the kernel drops the SYNs that follow.
func TestPeerThatNeverAccepts(t *testing.T) {
	target := fullListener(t)
	r := expect(t, "timeout: connect", sources.Probe{Type: sources.CheckTCP, Timeout: short}, target)
	if r.Duration < short {
		t.Errorf("gave up after %v", r.Duration)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"  one\ntwo":                   "one",
		"a\x00b\x1b[31m\xff":           "a?b?[31m\ufffd",
		strings.Repeat("ä", maxDetail): strings.Repeat("ä", maxDetail/2),
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("text\nmore")
	f.Fuzz(func(t *testing.T, s string) {
		if got := printable(s); len(got) > maxDetail || strings.ContainsAny(got, "\r\n\x1b\x00") {
			t.Errorf("%q", got)
		}
	})
}
