package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// Ports that every backend serves, on both families.
const (
	HTTPPort = 8080 // HTTP: an Answer as the body, whatever is asked
	LinePort = 7000 // an Answer for each line (TCP) or datagram (UDP) received
)

// A Backend is a host that answers with its name and with who it thinks asked.
type Backend struct {
	*Host
	closers []io.Closer
}

// serve listens on every port. The sockets stay in the namespace they were made
// in, so the servers themselves are goroutines of this process.
func (b *Backend) serve() error {
	return b.Do(func() error {
		lines, err := b.listen(LinePort)
		if err != nil {
			return err
		}
		go b.serveLines(lines)
		web, err := b.listen(HTTPPort)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: http.HandlerFunc(b.answerHTTP)}
		b.closers = append(b.closers, server)
		go server.Serve(web)
		datagrams, err := net.ListenPacket("udp", wildcard(LinePort))
		if err != nil {
			return err
		}
		b.closers = append(b.closers, datagrams)
		go b.serveDatagrams(datagrams.(*net.UDPConn))
		return nil
	})
}

func wildcard(port int) string { return net.JoinHostPort("::", strconv.Itoa(port)) }

func (b *Backend) listen(port int) (net.Listener, error) {
	l, err := b.Listen(port)
	if err == nil {
		b.closers = append(b.closers, l)
	}
	return l, err
}

func (b *Backend) answer(from net.Addr) []byte {
	return Answer{Backend: b.Name, Client: addrPort(from)}.line()
}

func (b *Backend) answerHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Write(b.answer(from))
}

func (b *Backend) serveLines(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			b.AnswerLines(c)
		}()
	}
}

// AnswerLines sends an Answer for each line that comes on a connection.
func (b *Backend) AnswerLines(c net.Conn) {
	for r := bufio.NewReader(c); ; {
		if _, err := r.ReadSlice('\n'); err != nil {
			return
		}
		c.Write(b.answer(c.RemoteAddr()))
	}
}

func (b *Backend) serveDatagrams(c *net.UDPConn) {
	buf := make([]byte, 1500)
	for {
		_, from, err := c.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			c.WriteTo(b.answer(from), from)
		}
	}
}

func (b *Backend) close() error {
	for _, c := range b.closers {
		c.Close()
	}
	if err := b.Host.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", b.Name, err)
	}
	return nil
}
