package nl

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// eventBuffer is in bytes. It holds a few thousand messages while the reader is busy.
const eventBuffer = 1 << 20

// Listen opens a socket that receives the multicast groups of a netlink family, in the network namespace of the
// calling thread. The kernel drops the messages that the filter refuses. Reads wait in the runtime's poller, so
// that Close and deadlines end them. After lost messages a read returns ENOBUFS.
func Listen(family int, filter []unix.SockFilter, groups ...int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, family)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "netlink")
	if err := join(fd, f, filter, groups); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func join(fd int, f *os.File, filter []unix.SockFilter, groups []int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventBuffer) != nil {
		// Without permission the default size must do. Lost messages are noticed.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, eventBuffer)
	}
	if err := Attach(f, filter); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for _, g := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
	}
	return nil
}

// Attach replaces the filter of a socket.
func Attach(f *os.File, filter []unix.SockFilter) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("attaching a filter: %w", err)
	}
	return nil
}

// Swap16 and Swap32 convert a number to the form that a filter loads: it reads memory as big-endian.
func Swap16(n uint16) uint32 {
	return uint32(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, n)))
}

// Swap32 is Swap16 for four bytes.
func Swap32(n uint32) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, n))
}
