package nl

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Transport carries datagrams to the kernel and back. The real one is a netlink socket; tests
// wrap it to count, to fail, and to die.
type Transport interface {
	// Send hands one datagram to the kernel, which has handled all of it on return.
	Send(datagram []byte) error
	// Receive reads one datagram into buf, blocking for at most Timeout (then ErrTimeout).
	Receive(buf []byte) (int, error)
	Close() error
}

// Dialer opens connections. Its zero value, and a nil one, open plain sockets.
type Dialer struct {
	// Wrap, when set, stands between every Conn and its socket, those opened again after a
	// failure included.
	Wrap func(family int, t Transport) Transport
}

// Timeout is the longest a Conn waits for a reply. The kernel answers inside the send, so in
// practice only a lost reply ever waits; it is what keeps one from hanging the process.
const Timeout = 30 * time.Second

const (
	// receiveBuffer holds more than 5,000 acknowledgements, at 768 bytes of kernel memory each
	// (212,992 bytes, the default, hold 277). Larger than net.core.rmem_max needs
	// CAP_NET_ADMIN, which whoever writes these tables has.
	receiveBuffer = 4 << 20

	// sendBuffer admits the largest datagram a Conn sends, one attribute of 64 KiB in its
	// message; the kernel refuses a datagram longer than this less 32 (netlink_sendmsg).
	sendBuffer = 256 << 10
)

// socket is a netlink socket bound to a port of the kernel's choice.
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
	// Without this every refusal carries the whole request back, 64 KiB for a full one.
	if err := unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1); err != nil {
		return fmt.Errorf("capped acknowledgements: %w", err)
	}
	if family == unix.NETLINK_ROUTE {
		// Kernels without it (before 4.20) dump every link's addresses whatever is asked; the
		// reader filters anyway.
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

// size sets a buffer past the system's limit where that is allowed, else as far as it goes.
func (s *socket) size(force, plain, n int) error {
	err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, n)
	if errors.Is(err, unix.EPERM) {
		err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, plain, n)
	}
	return err
}

func (s *socket) Send(datagram []byte) error {
	for {
		err := unix.Sendto(s.fd, datagram, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err != unix.EINTR {
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
		// Another process with enough rights may send to our port; only the kernel is port 0.
		if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
			continue
		}
		return n, nil
	}
}

func (s *socket) Close() error { return unix.Close(s.fd) }
