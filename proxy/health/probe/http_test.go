package probe

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

func httpServer(t testing.TB, handle http.HandlerFunc) netip.AddrPort {
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).AddrPort()
}

func TestHTTP(t *testing.T) {
	target := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			io.WriteString(w, "hello")
		case "/chunks":
			for range 100 {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
			}
			io.WriteString(w, "end")
		case "/moved":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusMovedPermanently)
		default:
			http.Error(w, "broken", http.StatusServiceUnavailable)
		}
	})
	p := sources.Probe{Type: sources.CheckHTTP}
	expect(t, "ok", p, target)
	p.Path = "/broken"
	expect(t, "status 503", p, target)
	p.ExpectStatus = "200, 500-503"
	expect(t, "ok", p, target)
	p.ExpectBody = "broken"
	expect(t, "ok", p, target)
	p.ExpectBody = "whole"
	expect(t, "body", p, target)
	expect(t, "ok", sources.Probe{Type: sources.CheckHTTP, Path: "/chunks", ExpectBody: "xend"}, target)
	expect(t, "ok", sources.Probe{Type: sources.CheckHTTP, Method: "HEAD"}, target)
	// A redirect is an answer. Nobody follows it.
	expect(t, "ok", sources.Probe{Type: sources.CheckHTTP, Path: "/moved"}, target)
	expect(t, "status 301", sources.Probe{Type: sources.CheckHTTP, Path: "/moved", ExpectStatus: "200"}, target)
	expect(t, "refused", p, closed(t))
}

func TestHTTPRequest(t *testing.T) {
	got := make(chan *http.Request, 1)
	target := httpServer(t, func(_ http.ResponseWriter, r *http.Request) { got <- r })
	expect(t, "ok", sources.Probe{
		Type: sources.CheckHTTP, Method: "OPTIONS", Path: "/a?b=c", Host: "www.example.org", Headers: "user-agent: mine\nX-One: 1",
	}, target)
	r := <-got
	if r.Method != "OPTIONS" || r.RequestURI != "/a?b=c" || r.Host != "www.example.org" || !r.Close ||
		r.Header.Get("User-Agent") != "mine" || r.Header.Get("X-One") != "1" || r.Header.Get("Accept-Encoding") != "" {
		t.Errorf("%+v", r)
	}
	expect(t, "ok", sources.Probe{Type: sources.CheckHTTP}, target)
	if r := <-got; r.Host != target.String() || r.UserAgent() != "svcproxy-health" {
		t.Errorf("%+v", r)
	}
}

func TestAuthority(t *testing.T) {
	for target, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "192.0.2.1:443": "192.0.2.1:443", "[fe80::1%eth0]:80": "[fe80::1]", "[2001:db8::1]:81": "[2001:db8::1]:81",
	} {
		a := &attempt{Probe: &sources.Probe{Type: sources.CheckHTTP}, target: netip.MustParseAddrPort(target)}
		if got := a.authority(); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	a := &attempt{Probe: &sources.Probe{Type: sources.CheckHTTPS, Method: "POST"}, target: netip.MustParseAddrPort("192.0.2.1:443")}
	if got := string(a.request()); !strings.Contains(got, "\r\nHost: 192.0.2.1\r\n") || !strings.Contains(got, "\r\nContent-Length: 0\r\n") {
		t.Errorf("%q", got)
	}
}

// TestHostileHTTP sends answers that would hold or fill a client that trusts its server.
func TestHostileHTTP(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 8<<20))
	z.Close()
	const ok = "HTTP/1.1 200 OK\r\n"
	body := sources.Probe{Type: sources.CheckHTTP, ExpectBody: "needle"}
	for name, test := range map[string]struct {
		handle func(net.Conn)
		want   string
		probe  sources.Probe
	}{
		"endless headers":       {endless(ok, "A: b\r\n"), "malformed: the answer is too long", body},
		"an endless header":     {endless(ok+"A: ", "b"), "malformed: the answer is too long", body},
		"an endless status":     {endless("HTTP/1.1 200 ", "b"), "malformed: the answer is too long", body},
		"an endless body":       {endless(ok+"\r\n", "x"), "body", body},
		"an endless chunk":      {endless(ok+"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n", "x"), "body", body},
		"small chunks":          {endless(ok+"Transfer-Encoding: chunked\r\n\r\n", "1;abcdefghi\r\nx\r\n"), "malformed...", body},
		"endless chunk header":  {endless(ok+"Transfer-Encoding: chunked\r\n\r\n1;", "x"), "malformed...", body},
		"a huge length":         {endless(ok+"Content-Length: 9223372036854775807\r\n\r\n", "x"), "body", body},
		"a negative length":     {endless(ok+"Content-Length: -1\r\n\r\n", "x"), "malformed...", body},
		"interim answers":       {endless("", "HTTP/1.1 103 Early Hints\r\n\r\n"), "malformed: too many interim answers", body},
		"a gzip bomb":           {says(ok + "Content-Encoding: gzip\r\n\r\n" + bomb.String()), "body", body},
		"garbage":               {endless("", "\x16\x03\x01\x00garbage"), "malformed...", body},
		"HTTP/2":                {says("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), "malformed...", body},
		"nothing":               {says(""), "closed: answer", body},
		"half an answer":        {says("HTTP/1.1 200 OK\r\nA: "), "closed: answer", body},
		"slow headers":          {drips(ok + "A: bbbbbbbbbbb\r\n"), "timeout: answer", sources.Probe{Type: sources.CheckHTTP, Timeout: short}},
		"silence":               {hangs, "timeout: answer", sources.Probe{Type: sources.CheckHTTP, Timeout: short}},
		"one of several status": {says("HTTP/1.1 99999 OK\r\n\r\n"), "malformed...", body},
	} {
		t.Run(name, func(t *testing.T) {
			r := expect(t, test.want, test.probe, serve(t, test.handle))
			if test.probe.Timeout > 0 && r.Duration > 10*time.Second {
				t.Errorf("took %v", r.Duration)
			}
		})
	}
}

// TestSlowBodyIsEnough has a body that never ends, but has what is expected.
func TestSlowBodyIsEnough(t *testing.T) {
	target := serve(t, func(c net.Conn) {
		c.Read(make([]byte, 4096))
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nstatus: go")
		time.Sleep(10 * time.Millisecond)
		io.WriteString(c, "od")
		hangs(c)
	})
	expect(t, "ok", sources.Probe{Type: sources.CheckHTTP, ExpectBody: "good"}, target)
}

func TestMatchStatus(t *testing.T) {
	for _, test := range []struct {
		list string
		code int
		want bool
	}{
		{"", 200, true}, {"", 399, true}, {"", 400, false}, {"", 199, false},
		{"204", 204, true}, {"204", 200, false}, {"200-299,404", 404, true}, {"200-299,404", 250, true}, {"x,5-,404", 404, true}, {"x", 0, false},
	} {
		if got := matchStatus(test.list, test.code); got != test.want {
			t.Errorf("matchStatus(%q, %d) = %v", test.list, test.code, got)
		}
	}
}

// countReader counts what is read of an answer.
type countReader struct {
	io.Reader
	n int
}

func (c *countReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += n
	return n, err
}

func FuzzHTTPAnswer(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok")
	f.Add("HTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok")
	f.Add("HTTP/1.0 503 No\r\n\r\n", "")
	f.Fuzz(func(t *testing.T, answer, body string) {
		from := &countReader{Reader: strings.NewReader(answer)}
		in := readers.New().(*reader)
		in.reset(from)
		r := judgeHTTP(in, "GET", "", body)
		if from.n > 2*maxHeader {
			t.Errorf("read %d bytes", from.n)
		}
		if r.Outcome == Void || r.Outcome == OK && !strings.HasPrefix(answer, "HTTP/") {
			t.Errorf("%v", r)
		}
	})
}

func FuzzFind(f *testing.F) {
	f.Add("answer", "we", 3)
	f.Fuzz(func(t *testing.T, text, want string, size int) {
		err := find(&pieces{text, max(1, size)}, []byte(want))
		text = text[:min(len(text), maxAnswer)]
		if has := strings.Contains(text, want); has != (err == nil) && !(want == "" && text == "") {
			t.Errorf("%v, but contains is %v", err, has)
		}
	})
}

// pieces is a reader that returns a few bytes at a time.
type pieces struct {
	text string
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(p.size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}
