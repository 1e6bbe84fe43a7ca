package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/link"
	"github.com/svcproxy/svcproxy/sources"
)

const (
	// synAgain is when a SYN is sent a second time. The time doubles then, as in Linux.
	synAgain = time.Second
	// macWait is between the first two looks whether the kernel knows the MAC address of an endpoint. It doubles.
	macWait     = time.Millisecond
	macWaitMost = 128 * time.Millisecond
	// The protocols in a tunnel.
	protocolIPIP, protocolIPv6 = 4, 41
)

// reach asks whether the endpoint answers for the VIP: it sends a SYN to the VIP on the way of the service's
// packets, and resets the connection in place of the handshake's last ACK. ended is true if that decides the
// probe.
//
// The node's own packets for a VIP never leave it by a socket of TCP: the VIP is local, and IPVS would choose
// an endpoint. So the probe makes the packet itself. It needs no firewall mark, no virtual server and no
// sysctl, and leaves nothing behind.
func (a *attempt) reach(vip netip.Addr) (r Result, ended bool) {
	own, err := a.ownAddress()
	if err != nil {
		return failure(err, "connect"), true
	}
	if own == a.target.Addr().WithZone("") {
		return Result{}, false // the endpoint is this node, and it has its VIPs
	}
	way, err := a.openWay()
	if err != nil {
		return failure(err, "connect"), true
	}
	defer way.close()
	isn := rand.Uint32()
	heard := &a.prober.answers[0]
	if vip.Is6() {
		heard = &a.prober.answers[1]
	}
	answer, port, err := heard.expect(a, isn)
	if err != nil {
		return failure(err, "listen"), true
	}
	defer heard.forget(isn)
	syn := segment{from: netip.AddrPortFrom(own, port), to: netip.AddrPortFrom(vip, a.target.Port()), seq: isn,
		flags: flagSYN}
	r = a.handshake(way, syn, answer)
	if r.Outcome != Refused {
		reset := syn
		reset.seq, reset.flags = isn+1, flagRST
		_ = way.send(reset.packet()) // if it is lost, the server sends its SYN-ACK again for a while
	}
	if r.Outcome == OK {
		a.done("VIP answered")
	}
	return r, r.Outcome != OK || onlyConnects(a.Probe)
}

// handshake sends a SYN until it is answered.
func (a *attempt) handshake(way *way, syn segment, answer <-chan segment) Result {
	where := "VIP " + syn.to.Addr().String()
	end := time.NewTimer(time.Until(a.deadline))
	defer end.Stop()
	for wait := synAgain; ; wait *= 2 {
		if err := way.send(syn.packet()); err != nil {
			return failure(err, where)
		}
		again := time.NewTimer(wait)
		select {
		case got := <-answer:
			again.Stop()
			switch {
			case got.from != syn.to:
				return result(Malformed, where+": an answer from "+got.from.String())
			case got.flags&flagRST != 0:
				return result(Refused, where)
			}
			return Result{Outcome: OK}
		case <-a.ctx.Done():
			again.Stop()
			return result(Void, "cancelled")
		case <-end.C:
			again.Stop()
			return result(Timeout, where)
		case <-again.C:
		}
	}
}

// ownAddress returns the address from which this node sends to the endpoint.
func (a *attempt) ownAddress() (netip.Addr, error) {
	fd, err := a.open(syscall.SOCK_DGRAM, 0)
	if err != nil {
		return netip.Addr{}, err
	}
	defer syscall.Close(fd)
	if errno := connect(fd, a.target); errno != 0 {
		return netip.Addr{}, connectError(errno)
	}
	own, err := syscall.Getsockname(fd)
	switch own := own.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrFrom4(own.Addr), nil
	case *syscall.SockaddrInet6:
		return netip.AddrFrom16(own.Addr), nil
	}
	return netip.Addr{}, os.NewSyscallError("getsockname", err)
}

// way sends packets to an endpoint as its service's forwarding method does.
type way struct {
	fd     int
	header []byte                  // before the packet
	to     *unix.SockaddrLinklayer // of a packet socket; nil if the socket is connected
}

func (w *way) close() { syscall.Close(w.fd) }

func (w *way) send(packet []byte) error {
	packet = append(w.header[:len(w.header):len(w.header)], packet...)
	if w.to != nil {
		return os.NewSyscallError("sendto", unix.Sendto(w.fd, packet, 0, w.to))
	}
	_, err := syscall.Write(w.fd, packet)
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno // ICMP's answer to an earlier packet counts against the endpoint
	}
	return err
}

// openWay opens the socket for the probe's forwarding method.
func (a *attempt) openWay() (*way, error) {
	inner := byte(protocolIPIP)
	if a.target.Addr().Is6() {
		inner = protocolIPv6
	}
	switch a.Way.Forward {
	case sources.Direct:
		return a.openLink()
	case sources.IPIP:
		return a.openTunnel(syscall.SOCK_RAW, int(inner), 0, nil) // a raw socket writes the outer header
	case sources.GUE:
		return a.openTunnel(syscall.SOCK_DGRAM, 0, a.Way.GUEPort, []byte{0, inner, 0, 0})
	}
	return nil, fmt.Errorf("no way for forward = %q", a.Way.Forward)
}

func (a *attempt) openTunnel(kind, protocol int, port uint16, header []byte) (*way, error) {
	fd, err := a.open(kind, protocol)
	if err != nil {
		return nil, err
	}
	if errno := connect(fd, netip.AddrPortFrom(a.target.Addr(), port)); errno != 0 {
		syscall.Close(fd)
		return nil, connectError(errno)
	}
	return &way{fd: fd, header: header}, nil
}

// openLink waits for the MAC address of the endpoint.
func (a *attempt) openLink() (*way, error) {
	hop, err := link.FindNextHop(a.target.Addr())
	for wait := macWait; err == nil && hop.MAC == nil; wait = min(2*wait, macWaitMost) {
		if time.Now().After(a.deadline) || a.ctx.Err() != nil {
			return nil, os.ErrDeadlineExceeded
		}
		time.Sleep(wait)
		hop, err = link.FindNextHop(a.target.Addr())
	}
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	to := &unix.SockaddrLinklayer{Protocol: etherType(a.target.Addr().Is6()), Ifindex: hop.Link,
		Halen: uint8(len(hop.MAC))}
	copy(to.Addr[:], hop.MAC)
	return &way{fd: fd, to: to}, nil
}
