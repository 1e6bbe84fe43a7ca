package link

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// eventBuffer is in bytes. It holds a few thousand messages while the reader is busy.
const eventBuffer = 1 << 20

// groups are the multicast groups of everything that the facts about the node come from.
var groups = []int{
	unix.RTNLGRP_LINK,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
}

// listen opens a socket with the filter that receives all groups.
func listen() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	// The socket is non-blocking: reads wait in the runtime's poller, so that Close ends them.
	f := os.NewFile(uintptr(fd), "rtnetlink")
	if err := subscribe(fd, f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func subscribe(fd int, f *os.File) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventBuffer) != nil {
		// Without permission the default size must do. Lost messages are noticed (ENOBUFS).
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, eventBuffer)
	}
	if err := attach(f, 0); err != nil {
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

// attach makes the kernel drop the messages that a busy node has most of: routes other than the
// default routes of the main table, and the addresses of one device, ours. No device has index 0.
func attach(f *os.File, device int) error {
	program := filter(device)
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("attaching a filter: %w", err)
	}
	return nil
}

// Offsets in a message: struct nlmsghdr, then struct ifaddrmsg or rtmsg.
const (
	offType   = 4
	offIndex  = unix.SizeofNlMsghdr + 4 // ifa_index
	offLength = unix.SizeofNlMsghdr + 1 // rtm_dst_len
	offTable  = unix.SizeofNlMsghdr + 4 // rtm_table
)

// filter returns the program of attach. Jumps are relative to the next line.
func filter(device int) []unix.SockFilter {
	const (
		load8  = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		load16 = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		load32 = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
		all    = 1<<32 - 1
	)
	return []unix.SockFilter{
		0:  {Code: load16, K: offType},
		1:  {Code: equal, K: swap16(unix.RTM_NEWADDR), Jt: 4},
		2:  {Code: equal, K: swap16(unix.RTM_DELADDR), Jt: 3},
		3:  {Code: equal, K: swap16(unix.RTM_NEWROUTE), Jt: 4},
		4:  {Code: equal, K: swap16(unix.RTM_DELROUTE), Jt: 3},
		5:  {Code: result, K: all}, // messages about links
		6:  {Code: load32, K: offIndex},
		7:  {Code: equal, K: swap32(uint32(device)), Jt: 5, Jf: 4},
		8:  {Code: load8, K: offLength},
		9:  {Code: equal, K: 0, Jf: 3},
		10: {Code: load8, K: offTable},
		11: {Code: equal, K: unix.RT_TABLE_MAIN, Jf: 1},
		12: {Code: result, K: all},
		13: {Code: result, K: 0},
	}
}

// swap16 and swap32 convert a number to the form that the program loads: it reads memory as
// big-endian.
func swap16(n uint16) uint32 {
	return uint32(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, n)))
}

func swap32(n uint32) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, n))
}
