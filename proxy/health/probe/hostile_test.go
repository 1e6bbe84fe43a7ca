package probe

import (
	"context"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/svcproxy/svcproxy/sources"
)

// forever is an answer without an end: first, then text again and again.
type forever struct {
	first, text string
	n           int
}

func (f *forever) Read(b []byte) (int, error) {
	for i := range b {
		if f.n < len(f.first) {
			b[i] = f.first[f.n]
		} else {
			b[i] = f.text[(f.n-len(f.first))%len(f.text)]
		}
		f.n++
	}
	return len(b), nil
}

// TestEndlessAnswersTakeLittleMemory measures what the parsers read and allocate.
func TestEndlessAnswersTakeLittleMemory(t *testing.T) {
	const limit = 1 << 20
	http := func(r io.Reader) Result {
		in := readers.New().(*reader)
		in.reset(r)
		return judgeHTTP(in, "GET", "", "needle")
	}
	grpc := func(r io.Reader) Result { return judgeGRPC(r, io.Discard) }
	agent := func(r io.Reader) Result {
		line, _, err := readLine(r)
		if err != nil {
			return failure(err, "answer")
		}
		return judgeAgent(string(line))
	}
	tcp := func(r io.Reader) Result { return failure(find(r, []byte("needle")), "answer") }
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, test := range map[string]struct {
		judge  func(io.Reader) Result
		answer forever
	}{
		"http headers": {http, forever{ok, "A:\r\n", 0}},
		"http names":   {http, forever{ok, "\x80", 0}},
		"http body":    {http, forever{ok + "\r\n", "x", 0}},
		"http chunks":  {http, forever{ok + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", 0}},
		"http interim": {http, forever{"", "HTTP/1.1 100 Go\r\n\r\n", 0}},
		"grpc pings":   {grpc, forever{"", frames(func(f *http2.Framer) { f.WritePing(false, [8]byte{}) }), 0}},
		"grpc data":    {grpc, forever{frames(func(f *http2.Framer) { headers(f, false, ":status", "200") }), frames(func(f *http2.Framer) { f.WriteData(1, false, make([]byte, 16000)) }), 0}},
		"grpc continuations": {grpc, forever{frames(func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}})
		}), frames(func(f *http2.Framer) { f.WriteContinuation(1, false, block("abcdef", "b")) }), 0}},
		"grpc headers": {grpc, forever{"", frames(func(f *http2.Framer) { headers(f, false, ":status", "200", "abc", "def") }), 0}},
		"agent":        {agent, forever{"", "up ", 0}},
		"tcp":          {tcp, forever{"", "x", 0}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := test.judge(&test.answer)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > limit || test.answer.n > 2*maxCall {
			t.Errorf("%s: %d bytes allocated, %d read", name, used, test.answer.n)
		}
		if r.Outcome == OK && name != "agent" || r.Outcome == Void {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestHostileTargetsDoNotHoldTheRunner probes servers of every bad manner, a program that hangs and a good server:
// each of them is probed again and again.
func TestHostileTargetsDoNotHoldTheRunner(t *testing.T) {
	const times = 3
	targets := map[sources.CheckType]netip.AddrPort{
		sources.CheckTCP: fullListener(t), sources.CheckHTTP: serve(t, drips("HTTP/1.1 200 OK\r\nA: b\r\n")), sources.CheckHTTPS: serve(t, hangs), sources.CheckTLS: serve(t, drips("\x16\x03\x03\x40\x00")),
		sources.CheckDNS: serveUDP(t, func([]byte) [][]byte { return nil }), sources.CheckGRPC: serve(t, hangs),
		sources.CheckUDP: serveUDP(t, func([]byte) [][]byte { return nil }), sources.CheckAgent: serve(t, endless("", "up ")), sources.CheckExec: closed(t),
	}
	good := serve(t, func(net.Conn) {})
	var mu sync.Mutex
	var wait sync.WaitGroup
	seen := map[netip.AddrPort]int{}
	r := NewRunner(new(Prober), func(x *Target, r Result) Next {
		mu.Lock()
		defer mu.Unlock()
		if seen[x.Address]++; seen[x.Address] == times {
			wait.Done()
		}
		if x.Address == good && r.Outcome != OK && !r.Void() {
			t.Errorf("the good server: %v", r)
		}
		return Next{After: 50 * time.Millisecond}
	}, Limits{})
	for kind, address := range targets {
		p := shell("sleep 100 & sleep 100")
		p.Type, p.Timeout, p.Expect = kind, short, "never"
		wait.Add(1)
		r.Add(&Target{Probe: &p, Address: address}, 50*time.Millisecond)
	}
	wait.Add(1)
	r.Add(&Target{Probe: &sources.Probe{Type: sources.CheckTCP, Timeout: 10 * time.Second}, Address: good}, 50*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.Run(ctx)
	all := make(chan bool)
	go func() {
		wait.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(time.Minute):
		mu.Lock()
		defer mu.Unlock()
		t.Errorf("probes after a minute: %v", seen)
	}
	if !r.Alive(time.Now()) {
		t.Error("the runner is not alive")
	}
}
