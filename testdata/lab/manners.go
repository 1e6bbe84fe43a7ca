package lab

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// How a Port serves its connections, in good and in bad manners.

// Hang takes what comes and never answers.
func Hang(c net.Conn) { io.Copy(io.Discard, c) }

// Say returns a server that says a text and closes, as an agent does.
func Say(text string) func(net.Conn) {
	return func(c net.Conn) { io.WriteString(c, text) }
}

// Web returns an HTTP server: each answer has the status and the backend's Answer,
// and comes after a delay.
func (b *Backend) Web(status int, delay time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			time.Sleep(delay)
			body := b.answer(c.RemoteAddr())
			answer := http.Response{
				StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: request,
				ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
			}
			if answer.Write(c) != nil {
				return
			}
		}
	}
}

// Secure returns a server that speaks TLS with a certificate, and then as serve does.
func Secure(cert tls.Certificate, serve func(net.Conn)) func(net.Conn) {
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	return func(c net.Conn) {
		s := tls.Server(c, config)
		defer s.Close()
		if s.Handshake() == nil {
			serve(s)
		}
	}
}

// GRPC returns a server of grpc.health.v1.Health: SERVING, or NOT_SERVING.
func GRPC(serving bool) func(net.Conn) {
	message := []byte{0, 0, 0, 0, 2, 8, 1} // not compressed, 2 bytes, field 1: SERVING
	if !serving {
		message[6] = 2
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		if r.URL.Path != "/grpc.health.v1.Health/Check" {
			w.Header().Set("Grpc-Status", "12") // UNIMPLEMENTED
			return
		}
		w.Write(message)
		w.Header().Set("Grpc-Status", "0")
	})
	return func(c net.Conn) {
		s := http.Server{Handler: handler, Protocols: new(http.Protocols)}
		s.Protocols.SetUnencryptedHTTP2(true)
		s.Serve(&oneConn{Conn: c, closed: make(chan struct{})})
	}
}

// oneConn is a listener that accepts one connection, and a second one never.
type oneConn struct {
	net.Conn
	accepted bool
	closed   chan struct{}
	once     sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Addr() net.Addr { return l.LocalAddr() }

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}

// DNS returns a server of the DNS that answers each question with a code and no records.
func DNS(code dnsmessage.RCode) func([]byte) []byte {
	return func(query []byte) []byte {
		var m dnsmessage.Message
		if err := m.Unpack(query); err != nil {
			return nil
		}
		m.Response, m.RCode = true, code
		reply, err := m.Pack()
		if err != nil {
			panic(fmt.Sprint("packing an answer: ", err))
		}
		return reply
	}
}
