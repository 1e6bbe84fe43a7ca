package nl

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Transport carries datagrams to the kernel and back. The real one is a netlink socket. Tests wrap
// it to count calls and to fail.
type Transport interface {
	// Send sends one datagram. The kernel has handled it when Send returns.
	Send(datagram []byte) error
	// Receive reads one datagram into buf. It blocks for at most Timeout and then returns
	// ErrTimeout.
	Receive(buf []byte) (int, error)
	Close() error
}

// Dialer opens connections. The zero value, and a nil Dialer, open plain sockets.
type Dialer struct {
	// Wrap, if not nil, wraps the socket of every Conn, also a socket opened again after a failure.
	Wrap func(family int, t Transport) Transport
}

// Timeout is the longest time a Conn waits for a reply. The kernel answers inside the send, so only
// a lost reply takes this long. Without a limit it would hang the process.
const Timeout = 30 * time.Second

const (
	// receiveBuffer is in bytes. It holds more than 5,000 acknowledgements of 768 bytes of kernel
	// memory each; the default of 212,992 bytes holds 277. A size above net.core.rmem_max needs
	// CAP_NET_ADMIN, which every writer of these tables has.
	receiveBuffer = 4 << 20

	// sendBuffer is in bytes. It admits the largest datagram of Conn.Send: a message with one
	// attribute of 64 KiB. The kernel rejects datagrams longer than this less 32 (netlink_sendmsg).
	sendBuffer = 256 << 10
)

// socket is a netlink socket with a port chosen by the kernel.
type socket struct{ fd int }

func openSocket(family int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket of family %d: %w", family, err)
	}
	s := &socket{fd}
	if err := s.configure(family); err != nil {
		s.Close()
		return nil, fmt.Errorf("setting up a netlink socket of family %d: %w", family, err)
	}
	return s, nil
}

func (s *socket) configure(family int) error {
	if err := s.size(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, receiveBuffer); err != nil {
		return fmt.Errorf("receive buffer: %w", err)
	}
	if err := s.size(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, sendBuffer); err != nil {
		return fmt.Errorf("send buffer: %w", err)
	}
	timeout := unix.NsecToTimeval(int64(Timeout))
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return fmt.Errorf("receive timeout: %w", err)
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1); err != nil {
		return fmt.Errorf("extended acknowledgements: %w", err)
	}
	// Without this every error returns the whole request, up to 64 KiB.
	if err := unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1); err != nil {
		return fmt.Errorf("capped acknowledgements: %w", err)
	}
	if family == unix.NETLINK_ROUTE {
		// Kernels before 4.20 lack it and dump the addresses of every link whatever is asked. The
		// reader filters them anyway.
		err := unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
		if err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
			return fmt.Errorf("strict checking: %w", err)
		}
	}
	if err := unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// size sets a buffer beyond the system's limit if that is allowed, else up to the limit.
func (s *socket) size(force, plain, n int) error {
	err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, n)
	if errors.Is(err, unix.EPERM) {
		err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, plain, n)
	}
	return err
}

// Send enlarges the buffer for a datagram that it does not admit, a long transaction of nftables. That needs
// CAP_NET_ADMIN, as the transaction does.
func (s *socket) Send(datagram []byte) error {
	for grown := false; ; {
		err := unix.Sendto(s.fd, datagram, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		switch {
		case err == unix.EINTR:
		case err == unix.EMSGSIZE && !grown:
			grown = true
			if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, len(datagram)) != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (s *socket) Receive(buf []byte) (int, error) {
	for {
		n, from, err := unix.Recvfrom(s.fd, buf, unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, fmt.Errorf("%w within %v", ErrTimeout, Timeout)
		case err != nil:
			return 0, err
		case n > len(buf):
			return 0, fmt.Errorf("a netlink datagram of %d bytes does not fit in %d", n, len(buf))
		}
		// Another process with enough rights may send to our port. Only the kernel is port 0.
		if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
			continue
		}
		return n, nil
	}
}

func (s *socket) Close() error { return unix.Close(s.fd) }
