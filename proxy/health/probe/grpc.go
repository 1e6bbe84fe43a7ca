package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	healthMethod = "/grpc.health.v1.Health/Check"
	callStream   = 1        // the first stream of a client
	maxCall      = 64 << 10 // of all frames that a server sends during a call, in bytes
)

// servingStatus are the values of grpc.health.v1.HealthCheckResponse.ServingStatus.
var servingStatus = [...]string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

const serving = 1

// grpcStatus are the names of gRPC's status codes.
var grpcStatus = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
	"DATA_LOSS", "UNAUTHENTICATED",
}

// grpc makes one unary call of grpc.health.v1.Health/Check. Only SERVING is ok.
func (a *attempt) grpc() Result {
	if !a.TLS {
		c, err := a.dial(syscall.SOCK_STREAM, 0)
		if err != nil {
			return failure(err, "connect")
		}
		defer c.Close()
		return a.call(c, "http")
	}
	c, expires, ended := a.dialTLS("h2")
	if c == nil {
		return ended
	}
	defer c.NetConn().Close()
	r := a.call(c, "https")
	r.Expires = expires
	return r
}

func (a *attempt) call(c net.Conn, scheme string) Result {
	// One write for the whole request: the server then answers once.
	var request bytes.Buffer
	writeCall(&request, scheme, a.authority(), a.Service, time.Until(a.deadline))
	if _, err := c.Write(request.Bytes()); err != nil {
		return failure(err, "send")
	}
	a.done("sent")
	r := judgeGRPC(c, c)
	a.done("ended")
	return r
}

// writeCall writes the connection preface and the call. A bytes.Buffer takes every write.
func writeCall(w *bytes.Buffer, scheme, authority, service string, timeout time.Duration) {
	w.WriteString(http2.ClientPreface)
	f := http2.NewFramer(w, nil)
	f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeader})
	var block bytes.Buffer
	h := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", scheme}, {":path", healthMethod}, {":authority", authority},
		{"te", "trailers"}, {"content-type", "application/grpc"}, {"user-agent", "svcproxy-health"},
		{"grpc-timeout", strconv.FormatInt(max(1, timeout.Milliseconds()), 10) + "m"},
	} {
		h.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: callStream, BlockFragment: block.Bytes(), EndHeaders: true})
	var message []byte
	if service != "" {
		message = append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service))), service...)
	}
	f.WriteData(callStream, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
}

// call is what has been received of the answer.
type call struct {
	status  string // :status of HTTP
	result  string // grpc-status
	message []byte // with its prefix of five bytes
	headers int    // blocks of headers
	ended   bool
}

// judgeGRPC reads the answer to a call and says what the service's status is. It answers SETTINGS and PING frames.
func judgeGRPC(r io.Reader, w io.Writer) Result {
	left := &io.LimitedReader{R: r, N: maxCall}
	f := http2.NewFramer(w, left)
	f.SetMaxReadFrameSize(maxHeader)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.MaxHeaderListSize = maxHeader
	var c call
	for !c.ended {
		frame, err := f.ReadFrame()
		if err == nil {
			err = c.add(f, frame)
		}
		if refusal, ok := errors.AsType[refusal](err); ok {
			return result(GRPC, string(refusal))
		}
		if err != nil && left.N <= 0 {
			return result(Malformed, "the answer is too long")
		}
		if err != nil {
			return failure(err, "answer")
		}
	}
	return c.judge()
}

// refusal is an error frame of the server.
type refusal string

func (r refusal) Error() string { return string(r) }

// add takes one frame.
func (c *call) add(f *http2.Framer, frame http2.Frame) error {
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			return f.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			return f.WritePing(true, frame.Data)
		}
	case *http2.GoAwayFrame:
		if frame.LastStreamID < callStream || frame.ErrCode != http2.ErrCodeNo {
			return refusal(fmt.Sprint("GOAWAY ", frame.ErrCode))
		}
	case *http2.RSTStreamFrame:
		return refusal(fmt.Sprint("RST_STREAM ", frame.ErrCode))
	case *http2.MetaHeadersFrame:
		if c.headers++; c.headers > maxInterim {
			return errors.New("too many headers")
		}
		if c.status == "" {
			c.status = frame.PseudoValue("status")
		}
		for _, field := range frame.RegularFields() {
			if field.Name == "grpc-status" {
				c.result = field.Value
			}
		}
		c.ended = frame.StreamEnded()
	case *http2.DataFrame:
		if len(c.message) < maxAnswer {
			c.message = append(c.message, frame.Data()...)
		}
		c.ended = frame.StreamEnded()
	}
	return nil
}

func (c *call) judge() Result {
	if c.status != "200" {
		code, err := strconv.ParseUint(c.status, 10, 16)
		if err != nil {
			return result(Malformed, "no HTTP status")
		}
		return Result{Outcome: Status, Code: int(code)}
	}
	code, err := strconv.ParseUint(c.result, 10, 16)
	switch {
	case err != nil:
		return result(Malformed, "no grpc-status")
	case int(code) >= len(grpcStatus):
		return Result{Outcome: GRPC, Code: int(code), Detail: "status " + strconv.Itoa(int(code))}
	case code != 0:
		return Result{Outcome: GRPC, Code: int(code), Detail: grpcStatus[code]}
	}
	status, err := parseHealth(c.message)
	switch {
	case err != nil:
		return result(Malformed, err.Error())
	case status == serving:
		return Result{Outcome: OK}
	case status < uint64(len(servingStatus)):
		return result(GRPC, servingStatus[status])
	}
	return result(GRPC, "serving status "+strconv.FormatUint(status, 10))
}

var errMessage = errors.New("no HealthCheckResponse")

// parseHealth returns field 1 of a HealthCheckResponse in gRPC's framing: a byte for compression, four for the length.
func parseHealth(b []byte) (status uint64, err error) {
	if len(b) < 5 || b[0] != 0 || uint64(binary.BigEndian.Uint32(b[1:])) != uint64(len(b)-5) {
		return 0, errMessage
	}
	for b = b[5:]; len(b) > 0; {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, errMessage
		}
		b = b[n:]
		var skip uint64
		switch tag & 7 {
		case 0:
			value, n := binary.Uvarint(b)
			if n <= 0 {
				return 0, errMessage
			}
			if tag>>3 == 1 {
				status = value
			}
			skip = uint64(n)
		case 1:
			skip = 8
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)) {
				return 0, errMessage
			}
			skip = uint64(n) + length
		case 5:
			skip = 4
		default:
			return 0, errMessage
		}
		if skip > uint64(len(b)) {
			return 0, errMessage
		}
		b = b[skip:]
	}
	return status, nil
}
