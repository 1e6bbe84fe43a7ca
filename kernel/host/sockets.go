package host

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// listening are the sockets that take connections or datagrams.
var listening = []struct {
	proto kernel.Proto
	state int
}{
	{kernel.TCP, stateListen}, {kernel.UDP, stateClose}, {kernel.SCTP, stateListen},
}

// Sockets tell which programs of this host listen, over NETLINK_SOCK_DIAG, which needs no capability. The name of a
// program is that of a process that has the socket open. Without CAP_SYS_PTRACE, which the unit does not have, the
// processes of other users cannot be asked. Then the socket's control group names the program's unit.
//
// They are those of the network namespace of the thread that reads them. The zero value is ready. One goroutine at
// a time may use it.
type Sockets struct {
	Dialer *nl.Dialer // nil: plain sockets
	known  map[uint32]owner
}

// owner is whose a socket is.
type owner struct {
	program string
	ours    bool
}

// Listeners returns the sockets of other programs at the ports that are wanted, sorted. To find the program of a
// socket takes a look at all processes, so it is done once for each socket. With an error, the sockets are those of the
// protocols that could be read, or none.
func (x *Sockets) Listeners(wanted func(port uint16, proto kernel.Proto) bool) ([]kernel.Listener, error) {
	found, err := read(x.Dialer, wanted)
	if err != nil && len(found) == 0 {
		return nil, err
	}
	x.know(found)
	var list []kernel.Listener
	for _, s := range found {
		if x.known[s.inode].ours {
			continue
		}
		s.Program = x.known[s.inode].program
		if s.index != 0 {
			link, gone := net.InterfaceByIndex(int(s.index))
			if gone != nil {
				continue // the link is gone, and nothing reaches the socket
			}
			s.Link = link.Name
		}
		list = append(list, s.Listener)
	}
	kernel.SortFunc(list, kernel.Listener.Compare)
	return slices.Compact(list), err
}

// know finds the programs of sockets that are new, and forgets those of sockets that are closed.
func (x *Sockets) know(found []socket) {
	known := make(map[uint32]owner, len(found))
	var unknown []socket
	for _, s := range found {
		h, ok := x.known[s.inode]
		if known[s.inode] = h; !ok {
			unknown = append(unknown, s)
		}
	}
	if len(unknown) > 0 {
		p := ownersOf(unknown)
		for _, s := range unknown {
			known[s.inode] = owner{p.name(&s), p.isOurs(&s)}
		}
	}
	x.known = known
}

// read returns the wanted sockets of all programs.
func read(d *nl.Dialer, wanted func(uint16, kernel.Proto) bool) (found []socket, err error) {
	conn, err := d.Dial(unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var unread error
	for _, l := range listening {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			start := len(found)
			var b nl.Batch
			request(&b, family, l.proto, l.state)
			err := conn.Dump(&b, func() { found = found[:start] }, func(p []byte) error {
				s, err := decode(p, l.proto)
				if err == nil && wanted(s.Port, s.Proto) {
					found = append(found, s)
				}
				return err
			})
			var fatal bool
			if err, fatal = verdict(l.proto, err); fatal {
				return nil, err
			}
			unread = cmp.Or(unread, err)
		}
	}
	return found, unread
}

// verdict returns what there is to say about an error of reading the sockets of a protocol, and whether it ends the
// reading. A kernel may lack IPv6, or a module: tcp_diag, without which nothing is known of the most important
// protocol, udp_diag or sctp_diag.
func verdict(proto kernel.Proto, err error) (say error, ends bool) {
	absent := errors.Is(err, unix.ENOENT)
	if err == nil || errors.Is(err, unix.EAFNOSUPPORT) || absent && proto != kernel.TCP {
		return nil, false
	}
	return fmt.Errorf("reading the sockets of %s: %w", proto, err), !absent
}
