package probe

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/svcproxy/svcproxy/sources"
)

const (
	maxHeader  = 16 << 10 // of an HTTP answer, in bytes
	maxInterim = 5        // 1xx answers before the one that counts
)

// http sends one HTTP/1.1 request.
func (a *attempt) http() Result {
	c, err := a.dial(syscall.SOCK_STREAM, 0)
	if err != nil {
		return failure(err, "connect")
	}
	defer c.Close()
	return a.roundTrip(c)
}

// https sends the request over TLS.
func (a *attempt) https() Result {
	c, expires, ended := a.dialTLS()
	if c == nil {
		return ended
	}
	defer c.NetConn().Close()
	r := a.roundTrip(c)
	r.Expires = expires
	return r
}

// roundTrip sends the request and judges the answer. The caller ends the connection, so a body is not read to its end.
func (a *attempt) roundTrip(c net.Conn) Result {
	if _, err := c.Write(a.request()); err != nil {
		return failure(err, "send")
	}
	a.done("sent")
	in := readers.Get().(*reader)
	defer in.release()
	in.reset(c)
	r := judgeHTTP(in, a.method(), a.ExpectStatus, a.ExpectBody)
	a.done("ended")
	return r
}

func (a *attempt) method() string {
	if a.Method == "" {
		return http.MethodGet
	}
	return a.Method
}

// request returns the bytes of the request. A configured header replaces ours of the same name.
func (a *attempt) request() []byte {
	path := a.Path
	if path == "" {
		path = "/"
	}
	b := make([]byte, 0, 256)
	b = append(b, a.method()+" "+path+" HTTP/1.1\r\nConnection: close\r\n"...)
	own := [...][2]string{{"Host", a.authority()}, {"User-Agent", "svcproxy-health"}, {"Accept", "*/*"}}
	var set [len(own)]bool
	for line := range strings.SplitSeq(a.Headers, "\n") {
		if line == "" {
			continue
		}
		name, _, _ := strings.Cut(line, ":")
		for i := range own {
			set[i] = set[i] || strings.EqualFold(name, own[i][0])
		}
		b = append(append(b, line...), "\r\n"...)
	}
	for i, header := range own {
		if !set[i] {
			b = append(b, header[0]+": "+header[1]+"\r\n"...)
		}
	}
	switch a.method() {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		b = append(b, "Content-Length: 0\r\n"...)
	}
	return append(b, "\r\n"...)
}

// authority returns the host that is asked for: as configured, or the address, with its port unless it is the
// scheme's.
func (a *attempt) authority() string {
	if a.Host != "" {
		return a.Host
	}
	addr, usual := a.target.Addr().WithZone(""), uint16(80)
	if a.Type == sources.CheckHTTPS || a.TLS {
		usual = 443
	}
	switch {
	case a.target.Port() != usual:
		return netip.AddrPortFrom(addr, a.target.Port()).String()
	case addr.Is6():
		return "[" + addr.String() + "]"
	}
	return addr.String()
}

// reader buffers an answer and stops at a limit.
type reader struct {
	*bufio.Reader
	from   io.Reader
	left   int   // bytes up to the limit
	failed error // of from: net/http replaces it if it comes within a line
}

var readers = sync.Pool{New: func() any {
	in := new(reader)
	in.Reader = bufio.NewReaderSize(nil, maxAnswer)
	return in
}}

// reset lets in read the first maxHeader bytes of from.
func (in *reader) reset(from io.Reader) {
	in.from, in.left, in.failed = from, maxHeader, nil
	in.Reader.Reset(source{in})
}

// source is what the buffer of a reader reads from.
type source struct{ *reader }

func (s source) Read(b []byte) (int, error) {
	if s.left <= 0 {
		return 0, io.EOF
	}
	n, err := s.from.Read(b[:min(len(b), s.left)])
	s.left -= n
	if err != nil {
		s.failed = err
	}
	return n, err
}

func (in *reader) release() {
	in.reset(nil)
	readers.Put(in)
}

// judgeHTTP reads the answer to a request and compares it with what is expected.
func judgeHTTP(in *reader, method, status, body string) Result {
	answer, err := readHTTP(in, method)
	if err != nil {
		return failureHTTP(in, err)
	}
	if !matchStatus(status, answer.StatusCode) {
		return Result{Outcome: Status, Code: answer.StatusCode}
	}
	if body == "" {
		return Result{Outcome: OK, Code: answer.StatusCode}
	}
	in.left = maxHeader // chunks of one byte have five bytes around it
	switch err := find(answer.Body, []byte(body)); {
	case err == nil:
		return Result{Outcome: OK, Code: answer.StatusCode}
	case errors.Is(err, errLacks), err == io.EOF:
		return Result{Outcome: Body, Code: answer.StatusCode}
	default:
		return failureHTTP(in, err)
	}
}

// readHTTP reads up to the end of the headers of the first answer that is not interim.
func readHTTP(in *reader, method string) (*http.Response, error) {
	request := &http.Request{Method: method}
	for range maxInterim {
		answer, err := http.ReadResponse(in.Reader, request)
		if err != nil || answer.StatusCode >= 200 || answer.StatusCode == http.StatusSwitchingProtocols {
			return answer, err
		}
	}
	return nil, errors.New("too many interim answers")
}

func failureHTTP(in *reader, err error) Result {
	if in.left <= 0 {
		return result(Malformed, "the answer is too long")
	}
	if in.failed != nil && in.failed != io.EOF {
		err = in.failed
	}
	return failure(err, "answer")
}

// matchStatus reports whether list, as "200-299,404", has code. An empty list is "200-399".
func matchStatus(list string, code int) bool {
	if list == "" {
		return code >= 200 && code <= 399
	}
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err == nil && err2 == nil && from <= code && code <= to {
			return true
		}
	}
	return false
}
