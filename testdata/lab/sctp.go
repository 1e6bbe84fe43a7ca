package lab

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// DialSCTP is Dial over SCTP, by one stream of an association.
func (h *Host) DialSCTP(to netip.AddrPort) (*Conn, error) {
	c, err := sctpSocket(h, to.Addr(), 0, func(fd int) error { return connect(fd, to) }, net.FileConn)
	if err != nil {
		return nil, fmt.Errorf("dial sctp %s: %w", to, err)
	}
	return &Conn{c, bufio.NewReader(c)}, nil
}

// connect is connect(2), repeated after signals. The Go runtime sends signals to
// its threads, and the kernel does not restart calls with a timeout.
func connect(fd int, to netip.AddrPort) error {
	err := unix.Connect(fd, sockaddr(to))
	for err == unix.EINTR {
		if _, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(AskLimit.Milliseconds())); err == nil {
			err = socketError(fd)
		}
	}
	return err
}

// socketError is how what went on in the background ended.
func socketError(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	return err
}

// ServeSCTP has the backend serve LinePort over SCTP, too.
func (b *Backend) ServeSCTP() error {
	for _, addr := range []netip.Addr{b.V4, b.V6} {
		l, err := sctpSocket(b.Host, addr, LinePort, func(fd int) error { return unix.Listen(fd, 16) }, net.FileListener)
		if err != nil {
			return fmt.Errorf("listen sctp on %s: %w", b.Name, err)
		}
		b.closers = append(b.closers, l)
		go b.serveLines(l)
	}
	return nil
}

// sctpSocket opens a socket of like's family and turns it into a connection of
// package net, which works for any stream socket with addresses and ports. It is
// bound to one address: with more, each side would tell the other all it has, and
// packets would go past the virtual server.
func sctpSocket[S any](h *Host, like netip.Addr, port uint16, open func(fd int) error, wrap func(*os.File) (S, error)) (s S, err error) {
	family := unix.AF_INET
	if like.Is6() {
		family = unix.AF_INET6
	}
	err = h.Do(func() error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "sctp")
		defer f.Close() // wrap has a descriptor of its own
		limit := unix.NsecToTimeval(AskLimit.Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
			return err
		}
		if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(h.Addr(like), port))); err != nil {
			return err
		}
		if err := open(fd); err != nil {
			return err
		}
		s, err = wrap(f)
		return err
	})
	return s, err
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}
