package lab

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// AskLimit is how long a question may take. Packets cross three namespaces in well under a millisecond, in an emulated
// guest in a few. On a busy machine a neighbour may answer late, and the kernel repeats a SYN after 1, 3 and 7 s.
const AskLimit = 15 * time.Second

// The ports of clients, Linux's range of ports that are chosen by the kernel.
const (
	firstClientPort = 32768
	clientPorts     = 60999 - firstClientPort + 1
)

// An Answer is a backend's reply.
type Answer struct {
	Backend string
	Client  netip.AddrPort // whom the backend saw asking
}

func (a Answer) line() []byte { return fmt.Appendf(nil, "%s %s\n", a.Backend, a.Client) }

func parseAnswer(line []byte) (a Answer, err error) {
	name, client, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	if !ok {
		return a, fmt.Errorf("not an answer of a backend: %q", line)
	}
	a.Backend = string(name)
	a.Client, err = netip.ParseAddrPort(string(client))
	return a, err
}

// addrPort is a socket's peer, without the mapping of a dual-stack socket.
func addrPort(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// A Conn is a TCP connection, or a UDP socket with a peer.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// Dial connects from the namespace to a backend; network is tcp or udp.
func (ns *Namespace) Dial(network string, to netip.AddrPort) (*Conn, error) {
	return ns.DialFrom(network, netip.Addr{}, to)
}

// DialFrom is Dial from one of the namespace's own addresses.
func (ns *Namespace) DialFrom(network string, from netip.Addr, to netip.AddrPort) (*Conn, error) {
	c, err := ns.dial(context.Background(), AskLimit, network, from, to)
	if err != nil {
		return nil, err
	}
	return &Conn{c, bufio.NewReader(c)}, nil
}

// dial works since a dialler of one numeric address opens its socket in the
// goroutine that calls it.
//
// Each connection of a namespace has a port of its own. The kernel would give one port to connections to two VIPs, and IPVS
// tells answers apart only by endpoint and client: those of two that reach one endpoint all go to one of them, until it has
// been closed for 10 s (https://github.com/kubernetes/kubernetes/issues/107249).
func (ns *Namespace) dial(ctx context.Context, limit time.Duration, network string, from netip.Addr, to netip.AddrPort) (c net.Conn, err error) {
	if !from.IsValid() {
		from = netip.IPv6Unspecified()
		if to.Addr().Is4() {
			from = netip.IPv4Unspecified()
		}
	}
	err = ns.Do(func() error {
		for range clientPorts {
			port := firstClientPort + (ns.dialled.Add(1)-1)%clientPorts
			local := netip.AddrPortFrom(from, uint16(port))
			dialer := net.Dialer{Timeout: limit}
			if dialer.LocalAddr = net.TCPAddrFromAddrPort(local); network == "udp" {
				dialer.LocalAddr = net.UDPAddrFromAddrPort(local)
			}
			if c, err = dialer.DialContext(ctx, network, to.String()); !errors.Is(err, unix.EADDRINUSE) {
				return err
			}
		}
		return err
	})
	return c, err
}

// Ask has the backend's LinePort at the other end answer, as often as wanted.
func (c *Conn) Ask() (Answer, error) { return c.askWithin(AskLimit) }

func (c *Conn) askWithin(limit time.Duration) (Answer, error) {
	c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte("\n")); err != nil {
		return Answer{}, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return Answer{}, err
	}
	return parseAnswer(line)
}

// Secure starts TLS on a TCP connection, unless it has begun already.
func (c *Conn) Secure(config *tls.Config) error {
	if _, begun := c.Conn.(*tls.Conn); begun {
		return nil
	}
	s := tls.Client(c.Conn, config)
	s.SetDeadline(time.Now().Add(AskLimit))
	if err := s.Handshake(); err != nil {
		return err
	}
	c.Conn, c.r = s, bufio.NewReader(s)
	return nil
}

// Reset ends a TCP connection without waiting for anything, which IPVS forgets
// in 10 s; an orderly end it remembers for two minutes.
func (c *Conn) Reset() error {
	below := c.Conn
	if s, ok := below.(*tls.Conn); ok {
		below = s.NetConn() // without a close_notify
	}
	if t, ok := below.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	return below.Close()
}

// Connect opens and closes a TCP connection.
func (ns *Namespace) Connect(to netip.AddrPort) error {
	c, err := ns.Dial("tcp", to)
	if err != nil {
		return err
	}
	return c.Close()
}

// Listen opens a TCP port on every address of the namespace. The kernel
// completes handshakes even if the caller never accepts.
func (ns *Namespace) Listen(port int) (l net.Listener, err error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // plain TCP is what is balanced
	err = ns.Do(func() error {
		l, err = config.Listen(context.Background(), "tcp", wildcard(port))
		return err
	})
	return l, err
}

// Ask asks once, on a connection of its own.
func (ns *Namespace) Ask(network string, to netip.AddrPort) (Answer, error) {
	c, err := ns.Dial(network, to)
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	return c.Ask()
}

// HTTP is a client inside the namespace that has a connection for each request,
// and a limit for it.
func (ns *Namespace) HTTP(limit time.Duration) *http.Client {
	return &http.Client{
		Timeout: limit,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			// The limit of a request is not that of its connection: net/http would go on
			// dialling for later requests, and IPVS would schedule connections that no
			// test counts.
			DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
				addr, err := netip.ParseAddrPort(to)
				if err != nil {
					return nil, err
				}
				return ns.dial(ctx, limit, network, netip.Addr{}, addr)
			},
		},
	}
}

// Get asks a backend's HTTPPort for its answer.
func Get(c *http.Client, to netip.AddrPort) (Answer, error) {
	r, err := c.Get("http://" + to.String() + "/")
	if err != nil {
		return Answer{}, err
	}
	return readAnswer(r)
}

// Get is an HTTP request on this very connection, to a backend's HTTPPort. A
// client of net/http would open another one when this fails, or is slow, and say
// nothing.
func (c *Conn) Get() (Answer, error) {
	c.SetDeadline(time.Now().Add(AskLimit))
	request, err := http.NewRequest(http.MethodGet, "http://"+c.RemoteAddr().String()+"/", nil)
	if err != nil {
		return Answer{}, err
	}
	if err := request.Write(c); err != nil {
		return Answer{}, err
	}
	r, err := http.ReadResponse(c.r, request)
	if err != nil {
		return Answer{}, err
	}
	return readAnswer(r)
}

func readAnswer(r *http.Response) (Answer, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1024))
	if err != nil {
		return Answer{}, err
	}
	if r.StatusCode != http.StatusOK {
		return Answer{}, fmt.Errorf("%s: %s", r.Status, strings.TrimSpace(string(body)))
	}
	return parseAnswer(body)
}

// Ping sends one echo request.
func (ns *Namespace) Ping(to netip.Addr) error {
	_, err := ns.Run("ping", "-n", "-c1", "-W2", to.String())
	return err
}
