package link

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// groups are the multicast groups of everything that the facts about the node come from.
var groups = []int{
	unix.RTNLGRP_LINK,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
}

// listen opens a socket with the filter that receives all groups.
func listen() (*os.File, error) { return nl.Listen(unix.NETLINK_ROUTE, filter(0), groups...) }

// Offsets in a message: struct nlmsghdr, then struct ifaddrmsg or rtmsg.
const (
	offType   = 4
	offIndex  = unix.SizeofNlMsghdr + 4 // ifa_index
	offLength = unix.SizeofNlMsghdr + 1 // rtm_dst_len
	offTable  = unix.SizeofNlMsghdr + 4 // rtm_table
)

// filter returns the program that makes the kernel drop the messages that a busy node has most of: routes other
// than the default routes of the main table, and the addresses of one device, ours. No device has index 0. Jumps
// are relative to the next line.
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
		1:  {Code: equal, K: nl.Swap16(unix.RTM_NEWADDR), Jt: 4},
		2:  {Code: equal, K: nl.Swap16(unix.RTM_DELADDR), Jt: 3},
		3:  {Code: equal, K: nl.Swap16(unix.RTM_NEWROUTE), Jt: 4},
		4:  {Code: equal, K: nl.Swap16(unix.RTM_DELROUTE), Jt: 3},
		5:  {Code: result, K: all}, // messages about links
		6:  {Code: load32, K: offIndex},
		7:  {Code: equal, K: nl.Swap32(uint32(device)), Jt: 5, Jf: 4},
		8:  {Code: load8, K: offLength},
		9:  {Code: equal, K: 0, Jf: 3},
		10: {Code: load8, K: offTable},
		11: {Code: equal, K: unix.RT_TABLE_MAIN, Jf: 1},
		12: {Code: result, K: all},
		13: {Code: result, K: 0},
	}
}
