package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noticed is how soon a running process notices that a deadline has passed.
const noticed = 10 * time.Millisecond

// conn is a connected socket with the probe's deadline. It is a net.Conn without addresses, for crypto/tls.
//
// If the process notices the deadline late, because it was stopped or got no processor, the answer may lie in the
// socket. The deadline then moves once by what it was late, at most by half of the timeout.
type conn struct {
	*os.File
	attempt *attempt
	until   time.Time // the deadline
	moved   bool
	packets bool        // a datagram socket
	wrote   bool        // something
	stop    func() bool // forgets the cancellation of the probe
}

// LocalAddr returns nil.
func (c *conn) LocalAddr() net.Addr { return nil }

// RemoteAddr returns nil.
func (c *conn) RemoteAddr() net.Addr { return nil }

// Close closes the socket. A TCP connection ends by RST.
func (c *conn) Close() error {
	c.stop()
	return c.File.Close()
}

// Read reads from the socket.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.File.Read(b)
	if err != nil && c.moves(err) {
		return c.File.Read(b)
	}
	return n, err
}

// Write writes to the socket.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.File.Write(b)
	first := !c.wrote
	c.wrote = true
	if errno, ok := errors.AsType[syscall.Errno](err); ok && c.packets && first && noRoute[errno] {
		return n, unsentError{errno} // no answer to an earlier packet
	}
	if err != nil && c.moves(err) {
		more, err := c.File.Write(b[n:])
		return n + more, err
	}
	return n, err
}

// moves reports whether it has moved the deadline after an error.
func (c *conn) moves(err error) bool {
	late := time.Since(c.until)
	if c.moved || late < noticed || !errors.Is(err, os.ErrDeadlineExceeded) || c.attempt.ctx.Err() != nil {
		return false
	}
	c.moved = true
	c.until = time.Now().Add(min(late, c.attempt.timeout/2))
	return c.SetDeadline(c.until) == nil
}

// open opens a socket of the family of a's target.
func (a *attempt) open(kind, protocol int) (int, error) {
	family := syscall.AF_INET
	if a.target.Addr().Is6() {
		family = syscall.AF_INET6
	}
	fd, err := syscall.Socket(family, kind|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, protocol)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := a.setOptions(fd, kind); err != nil {
		syscall.Close(fd)
		return 0, err
	}
	return fd, nil
}

// dial opens a socket and connects it to a's target.
func (a *attempt) dial(kind, protocol int) (*conn, error) {
	fd, err := a.open(kind, protocol)
	if err != nil {
		return nil, err
	}
	pending := connect(fd, a.target)
	if pending != 0 && pending != syscall.EINPROGRESS {
		syscall.Close(fd)
		return nil, connectError(pending)
	}
	file := os.NewFile(uintptr(fd), "socket")
	if err := file.SetDeadline(a.deadline); err != nil {
		file.Close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	c := &conn{File: file, attempt: a, until: a.deadline, packets: kind != syscall.SOCK_STREAM}
	c.stop = context.AfterFunc(a.ctx, func() { file.SetDeadline(time.Unix(1, 0)) })
	if pending != 0 {
		err = c.finishConnect()
	}
	if err == nil && kind == syscall.SOCK_STREAM && connectedToItself(fd, a.target) {
		err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	if kind == syscall.SOCK_STREAM {
		a.done("connected")
	}
	return c, nil
}

// setOptions applies where the probe is sent from.
func (a *attempt) setOptions(fd, kind int) error {
	set := func(err error) error { return os.NewSyscallError("setsockopt", err) }
	if kind == syscall.SOCK_STREAM {
		// A zero linger time makes close send RST.
		if err := syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}); err != nil {
			return set(err)
		}
	} else {
		// Without it a datagram socket ignores ICMP's host unreachable.
		level, option := syscall.SOL_IP, syscall.IP_RECVERR
		if a.target.Addr().Is6() {
			level, option = syscall.SOL_IPV6, syscall.IPV6_RECVERR
		}
		if err := syscall.SetsockoptInt(fd, level, option, 1); err != nil {
			return set(err)
		}
	}
	if a.Mark != 0 {
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_MARK, int(a.Mark)); err != nil {
			return set(err)
		}
	}
	if a.Interface != "" {
		if err := syscall.BindToDevice(fd, a.Interface); err != nil {
			return set(err)
		}
	}
	if a.Source.IsValid() {
		return os.NewSyscallError("bind", syscall.Bind(fd, sockaddr(netip.AddrPortFrom(a.Source.Unmap(), 0))))
	}
	return nil
}

// finishConnect waits for the answer to the SYN. A second connect says how it went: EALREADY while it has not come.
func (c *conn) finishConnect() error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed syscall.Errno
	again := func(fd uintptr) bool {
		failed = connect(int(fd), c.attempt.target)
		return failed != syscall.EALREADY && failed != syscall.EINTR
	}
	if err = raw.Write(again); err != nil && c.moves(err) {
		err = raw.Write(again)
	}
	if err != nil {
		return err
	}
	if failed == 0 || failed == syscall.EISCONN {
		return nil
	}
	return os.NewSyscallError("connect", failed)
}

// connectedToItself reports whether the kernel chose the closed port of a local endpoint as the source port: TCP's
// simultaneous open then connects the socket to itself.
func connectedToItself(fd int, target netip.AddrPort) bool {
	own, err := syscall.Getsockname(fd)
	if err != nil {
		return false
	}
	switch own := own.(type) {
	case *syscall.SockaddrInet4:
		return own.Port == int(target.Port()) && netip.AddrFrom4(own.Addr) == target.Addr()
	case *syscall.SockaddrInet6:
		return own.Port == int(target.Port()) && netip.AddrFrom16(own.Addr) == target.Addr().WithZone("")
	}
	return false
}

// connect is syscall.Connect for a socket that does not block. That one tells Go's scheduler of each call, because
// it may block, and allocates: 6 % of a probe's cost.
func connect(fd int, to netip.AddrPort) syscall.Errno {
	var port [2]byte
	binary.BigEndian.PutUint16(port[:], to.Port())
	if to.Addr().Is4() {
		raw := syscall.RawSockaddrInet4{Family: syscall.AF_INET, Port: binary.NativeEndian.Uint16(port[:]),
			Addr: to.Addr().As4()}
		return rawConnect(fd, unsafe.Pointer(&raw), unsafe.Sizeof(raw))
	}
	raw := syscall.RawSockaddrInet6{
		Family: syscall.AF_INET6, Port: binary.NativeEndian.Uint16(port[:]),
		Addr: to.Addr().As16(), Scope_id: zone(to.Addr().Zone()),
	}
	return rawConnect(fd, unsafe.Pointer(&raw), unsafe.Sizeof(raw))
}

func rawConnect(fd int, to unsafe.Pointer, size uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(to), size)
	return errno
}

func sockaddr(a netip.AddrPort) syscall.Sockaddr {
	if a.Addr().Is4() {
		return &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zone(a.Addr().Zone())}
}

// zone returns the index of a link-local address's interface; 0 if there is none, which connect refuses.
func zone(name string) uint32 {
	if name == "" {
		return 0
	}
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n)
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return uint32(link.Index)
}
