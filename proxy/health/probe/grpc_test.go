package probe

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/svcproxy/svcproxy/sources"
)

// grpcServer is net/http as a gRPC server: it answers with the bytes that reply returns for a service.
func grpcServer(t testing.TB, secure bool, reply func(service string) (message []byte, status string)) netip.AddrPort {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != healthMethod || r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("Te") != "trailers" {
			t.Errorf("request %+v %q %v", r, body, err)
		}
		service := ""
		if len(body) > 5 {
			service = string(body[7:])
		}
		message, status := reply(service)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(message)
		w.Header().Set("Grpc-Status", status)
	}))
	s.Config.Protocols = new(http.Protocols)
	if secure {
		s.EnableHTTP2 = true
		s.Config.Protocols.SetHTTP2(true)
		s.StartTLS()
	} else {
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).AddrPort()
}

func health(service string) ([]byte, string) {
	switch service {
	case "":
		return []byte{0, 0, 0, 0, 2, 8, 1}, "0"
	case "down":
		return []byte{0, 0, 0, 0, 2, 8, 2}, "0"
	case "zero":
		return []byte{0, 0, 0, 0, 0}, "0"
	case "strange":
		return []byte{0, 0, 0, 0, 2, 8, 99}, "0"
	case "short":
		return []byte{0, 0, 0, 0, 9, 8, 1}, "0"
	case "code":
		return nil, "77"
	}
	return nil, "5"
}

func TestGRPC(t *testing.T) {
	target := grpcServer(t, false, health)
	p := sources.Probe{Type: sources.CheckGRPC}
	expect(t, "ok", p, target)
	for service, want := range map[string]string{
		"down": "grpc NOT_SERVING", "zero": "grpc UNKNOWN", "strange": "grpc serving status 99", "other": "grpc NOT_FOUND",
		"code": "grpc status 77", "short": "malformed: no HealthCheckResponse",
	} {
		p.Service = service
		expect(t, want, p, target)
	}
	expect(t, "refused", p, closed(t))
	expect(t, "malformed...", p, serve(t, says("HTTP/1.1 400 Bad Request\r\n\r\n")))
	p.Timeout = short
	expect(t, "timeout: answer", p, serve(t, hangs))
}

func TestGRPCOverTLS(t *testing.T) {
	target := grpcServer(t, true, health)
	r := expect(t, "ok", sources.Probe{Type: sources.CheckGRPC, TLS: true, Host: "example.org"}, target)
	if !r.Expires.After(time.Now()) {
		t.Errorf("expires %v", r.Expires)
	}
	own, _ := certificate(t, time.Now(), time.Now().Add(time.Hour))
	http1 := &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"http/1.1"}}
	expect(t, "tls remote alert: no application protocol", sources.Probe{Type: sources.CheckGRPC, TLS: true}, serveTLS(t, http1, hangs))
}

// frames returns the bytes of frames.
func frames(write func(f *http2.Framer)) string {
	var b bytes.Buffer
	write(http2.NewFramer(&b, nil))
	return b.String()
}

func block(fields ...string) []byte {
	var b bytes.Buffer
	h := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		h.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

func headers(f *http2.Framer, end bool, fields ...string) {
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(fields...), EndHeaders: true, EndStream: end})
}

func TestHostileGRPC(t *testing.T) {
	p := sources.Probe{Type: sources.CheckGRPC}
	settings := frames(func(f *http2.Framer) { f.WriteSettings() })
	ok := frames(func(f *http2.Framer) { headers(f, false, ":status", "200") })
	for name, test := range map[string]struct {
		handle func(net.Conn)
		want   string
	}{
		"endless settings": {endless("", settings), "malformed: the answer is too long"},
		"endless pings":    {endless(settings, frames(func(f *http2.Framer) { f.WritePing(false, [8]byte{}) })), "malformed: the answer is too long"},
		"endless data":     {endless(settings+ok, frames(func(f *http2.Framer) { f.WriteData(1, false, make([]byte, 1000)) })), "malformed: the answer is too long"},
		"endless continuations": {endless(frames(func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(":status", "200")})
		}), frames(func(f *http2.Framer) { f.WriteContinuation(1, false, block("a", "b")) })), "malformed..."},
		"a large frame":  {endless("\xff\xff\xff\x00\x00\x00\x00\x00\x01", "x"), "malformed..."},
		"goaway":         {says(frames(func(f *http2.Framer) { f.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) })), "grpc GOAWAY ENHANCE_YOUR_CALM"},
		"reset":          {says(frames(func(f *http2.Framer) { f.WriteRSTStream(1, http2.ErrCodeRefusedStream) })), "grpc RST_STREAM REFUSED_STREAM"},
		"status 404":     {says(frames(func(f *http2.Framer) { headers(f, true, ":status", "404") })), "status 404"},
		"no status":      {says(frames(func(f *http2.Framer) { headers(f, true, "grpc-status", "0") })), "malformed: no HTTP status"},
		"trailers alone": {says(frames(func(f *http2.Framer) { headers(f, true, ":status", "200", "grpc-status", "12") })), "grpc UNIMPLEMENTED"},
		"no grpc-status": {says(frames(func(f *http2.Framer) { headers(f, true, ":status", "200") })), "malformed: no grpc-status"},
		"garbage":        {endless("", "garbage"), "malformed..."},
		"nothing":        {says(settings), "closed: answer"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, test.want, p, serve(t, test.handle)) })
	}
}

func FuzzGRPCAnswer(f *testing.F) {
	f.Add([]byte(frames(func(f *http2.Framer) {
		f.WriteSettings()
		headers(f, false, ":status", "200")
		f.WriteData(1, false, []byte{0, 0, 0, 0, 2, 8, 1})
		headers(f, true, "grpc-status", "0")
	})))
	f.Add([]byte(frames(func(f *http2.Framer) {
		f.WritePing(false, [8]byte{})
		f.WriteGoAway(1, 0, []byte("x"))
		headers(f, true, ":status", "200", "grpc-status", "12")
	})))
	f.Fuzz(func(t *testing.T, answer []byte) {
		from := &countReader{Reader: bytes.NewReader(answer)}
		r := judgeGRPC(from, io.Discard)
		if r.Outcome == Void || from.n > maxCall || len(r.Detail) > maxDetail {
			t.Errorf("%v after %d bytes", r, from.n)
		}
	})
}

func FuzzHealthMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 8, 1})
	f.Add([]byte{0, 0, 0, 0, 24, 8, 2, 17, 1, 2, 3, 4, 5, 6, 7, 8, 26, 2, 'a', 'b', 37, 1, 2, 3, 4, 8, 1, 32, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		if status, err := parseHealth(message); err != nil && status != 0 {
			t.Errorf("%d, %v", status, err)
		}
	})
}
