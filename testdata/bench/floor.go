package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// floor sends what svcproxy sent, already encoded, from plain sockets: no program
// that sends these messages can cost less. Sysctls and iptables rules are written
// here too, at the same point of the load. In the end everything is removed as
// svcproxy removes it, see ground.
func (b *bench) floor(p *pass) error {
	if b.recorded == nil {
		return errors.New("nothing was recorded: run the scenario svcproxy too")
	}
	g, err := p.empty()
	if err != nil {
		return err
	}
	defer g.close()
	stretches := runs(g.plan.Ops)
	if len(stretches) != len(b.recorded) {
		return fmt.Errorf("a load of %d stretches, recorded were %d", len(stretches), len(b.recorded))
	}
	sockets := map[int]int{}
	for _, family := range []int{unix.NETLINK_GENERIC, unix.NETLINK_NETFILTER, unix.NETLINK_ROUTE} {
		fd, err := plainSocket(family)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		sockets[family] = fd
	}
	first := len(p.samples)
	for i, s := range b.recorded {
		if len(s.sent) == 0 {
			err = g.kernel.Apply(context.Background(), kernel.Plan{Ops: stretches[i]})
		} else {
			err = p.lap("load "+s.part, func() error {
				for _, d := range s.sent {
					if err := exchange(sockets[d.family], d.bytes); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	p.samples = merged(p.samples, first)
	p.samples = append(p.samples, p.total(p.samples[first:]))
	return g.clean()
}

func plainSocket(family int) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return 0, err
	}
	return fd, errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 1<<20),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
	)
}

var answer [64 << 10]byte

// exchange sends a datagram and reads up to the one acknowledgement it asks for.
func exchange(fd int, b []byte) error {
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for acknowledged := false; !acknowledged; {
		n, _, err := unix.Recvfrom(fd, answer[:], 0)
		if err != nil {
			return err
		}
		if n < unix.SizeofNlMsghdr+4 {
			return fmt.Errorf("a message of %d bytes", n)
		}
		// Before it comes what svcproxy asked for: its new link's number.
		acknowledged = binary.NativeEndian.Uint16(answer[4:]) == unix.NLMSG_ERROR
	}
	if errno := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return fmt.Errorf("a message was refused: %w", unix.Errno(errno))
	}
	return nil
}
