package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"golang.org/x/sys/unix"
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
		c := datagrams.(*net.UDPConn)
		go b.serveDatagrams(c)
		return tellDestination(c)
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

// serveDatagrams answers from the address that was asked, which may be one of several that the host has.
func (b *Backend) serveDatagrams(c *net.UDPConn) {
	buf, oob := make([]byte, 1500), make([]byte, 128)
	for {
		_, n, _, from, err := c.ReadMsgUDP(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			c.WriteMsgUDP(b.answer(from), asSource(oob[:n]), from)
		}
	}
}

// tellDestination makes a socket of both families say which address a datagram was sent to.
func tellDestination(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) })
	return errors.Join(err, failed)
}

// asSource makes the control message that says where a datagram came to one that says where the answer comes from. The
// index of the link, its last four bytes, becomes 0: the route decides.
func asSource(oob []byte) []byte {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(all) != 1 || len(all[0].Data) != unix.SizeofInet6Pktinfo {
		return nil
	}
	clear(all[0].Data[16:])
	return oob
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
