package host

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// From linux/inet_diag.h and linux/sock_diag.h.
const (
	sockDiagByFamily = 20
	requestSize      = 56 // struct inet_diag_req_v2
	messageSize      = 72 // struct inet_diag_msg
	attrV6Only       = 11 // INET_DIAG_SKV6ONLY
	attrCgroup       = 21 // INET_DIAG_CGROUP_ID
)

// The states of sockets that take connections or datagrams (include/net/tcp_states.h). A UDP socket that is not
// connected has the state TCP_CLOSE, and a listening SCTP socket TCP_LISTEN.
const (
	stateClose  = 7
	stateListen = 10
)

// socket is one socket of a dump.
type socket struct {
	kernel.Listener
	index  uint32 // of the link that it is bound to; 0 = none
	uid    uint32
	inode  uint32
	cgroup uint64 // its id; 0 = not known
}

// request adds the request for all sockets of a family and protocol in a state.
func request(b *nl.Batch, family uint8, proto kernel.Proto, state int) {
	var p [requestSize]byte
	p[0], p[1] = family, uint8(proto)
	binary.NativeEndian.PutUint32(p[4:], 1<<state)
	b.Begin(sockDiagByFamily, 0)
	b.Raw(p[:])
	b.End()
}

// decode decodes one struct inet_diag_msg with its attributes.
func decode(p []byte, proto kernel.Proto) (socket, error) {
	if len(p) < messageSize {
		return socket{}, fmt.Errorf("a socket of %d bytes: at least %d belong", len(p), messageSize)
	}
	s := socket{
		Listener: kernel.Listener{Port: binary.BigEndian.Uint16(p[4:]), Proto: proto},
		index:    binary.NativeEndian.Uint32(p[40:]),
		uid:      binary.NativeEndian.Uint32(p[64:]),
		inode:    binary.NativeEndian.Uint32(p[68:]),
	}
	switch p[0] {
	case unix.AF_INET:
		s.Addr = netip.AddrFrom4([4]byte(p[8:]))
	case unix.AF_INET6:
		s.Addr = netip.AddrFrom16([16]byte(p[8:])).Unmap()
	default:
		return socket{}, fmt.Errorf("a socket of family %d", p[0])
	}
	a := nl.ParseAttrs(p[messageSize:])
	for a.Next() {
		switch a.Type() {
		case attrV6Only:
			s.V6Only = a.U8() != 0
		case attrCgroup:
			s.cgroup = a.U64()
		}
	}
	return s, a.Err()
}
