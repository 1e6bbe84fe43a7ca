package main

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Client and server are blocking system calls without Go's poller, because what is
// measured is the path between them.

// ask opens a connection, writes one byte and reads n until the other side closes.
// 'c' asks for one byte, 't' for pathBytes.
func ask(to netip.AddrPort, what byte, n int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// What hangs is an error, not a measurement.
	limit := unix.Timeval{Sec: 60}
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
	err = again(func() error {
		return unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	})
	if err != nil {
		return fmt.Errorf("connect to %v: %w", to, err)
	}
	if err := again(func() error { _, err := unix.Write(fd, []byte{what}); return err }); err != nil {
		return fmt.Errorf("write to %v: %w", to, err)
	}
	buf := received[:]
	if n == 1 {
		buf = make([]byte, 2) // such clients are many at once
	}
	for got := 0; ; {
		var m int
		err := again(func() (err error) { m, err = unix.Read(fd, buf); return err })
		if err != nil {
			return fmt.Errorf("read from %v after %d bytes: %w", to, got, err)
		}
		if got += m; m == 0 {
			if got != n {
				return fmt.Errorf("%v sent %d bytes, want %d", to, got, n)
			}
			return nil
		}
	}
}

// again repeats a system call that a signal of the Go runtime interrupted. The kernel
// does not restart calls on a socket with a timeout (signal(7)); a repeated connect
// waits for the first one.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

var received, sent [256 << 10]byte

func listenRaw(port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port}); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, unix.Listen(fd, 128)
}

// serveRaw answers one connection after the other, for as long as the process lives.
func serveRaw(fd int) {
	for {
		c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		var b [1]byte
		if n, _ := unix.Read(c, b[:]); n == 1 {
			left := 1
			if b[0] == 't' {
				left = pathBytes
			}
			for left > 0 {
				n, err := unix.Write(c, sent[:min(left, len(sent))])
				if err != nil {
					break
				}
				left -= n
			}
		}
		unix.Close(c)
	}
}
