package probe

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// answersIdle is how long the packet socket stays open after the last probe that needed it.
const answersIdle = time.Minute

// answers receives what endpoints answer to SYNs for a VIP, in one address family. A packet socket takes the
// answers off the link: they come from an address that this node has itself, and the kernel drops these as
// martians before any other socket could see them. Only packets for one port of ours pass the socket's
// filter. The zero value is closed.
type answers struct {
	mu      sync.Mutex
	ours    pool // holds the port, from which all these SYNs are sent
	file    *os.File
	waiting map[uint32]chan segment // by the number that the answer acknowledges
}

// expect returns a channel that gets the answer to a SYN with this number, and the port to send it from.
func (s *answers) expect(a *attempt, isn uint32) (<-chan segment, uint16, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		if err := s.open(a); err != nil {
			return nil, 0, err
		}
	}
	answer := make(chan segment, 1)
	s.waiting[isn+1] = answer
	return answer, uint16(s.ours.port), nil
}

// forget ends expect.
func (s *answers) forget(isn uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, isn+1)
}

// open opens the packet socket. The lock is held.
func (s *answers) open(a *attempt) error {
	what, plain := *a.Probe, *a
	what.Source, plain.Probe = netip.Addr{}, &what // the port is one of all addresses
	if err := s.ours.choose(&plain); err != nil {
		return err
	}
	fd, err := packetSocket(a.target.Addr().Is6(), s.ours.port)
	if err != nil {
		s.ours.close()
		s.ours = pool{}
		return err
	}
	s.file, s.waiting = os.NewFile(uintptr(fd), "packet"), map[uint32]chan segment{}
	go s.receive(s.file)
	return nil
}

// receive hands out answers until none was expected for a while, or the socket fails: the next probe opens another one.
func (s *answers) receive(file *os.File) {
	buf := make([]byte, 256)
	for {
		file.SetReadDeadline(time.Now().Add(answersIdle))
		n, err := file.Read(buf)
		if err == nil {
			s.deliver(buf[:n])
			continue
		}
		s.mu.Lock()
		if errors.Is(err, os.ErrDeadlineExceeded) && len(s.waiting) > 0 {
			s.mu.Unlock()
			continue
		}
		s.ours.close()
		file.Close()
		s.ours, s.file, s.waiting = pool{}, nil, nil
		s.mu.Unlock()
		return
	}
}

func (s *answers) deliver(p []byte) {
	got, ok := readSegment(p)
	if !ok || got.flags&flagACK == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.waiting[got.ack] <- got: // nil if nobody waits
	default: // a packet that came by two links, such as a bridge and its port
	}
}

// packetSocket returns a socket that receives the packets of TCP for a port, from all links. It binds to the
// protocol only after the filter is in place, so it receives nothing before.
func packetSocket(v6 bool, port int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	program := forPort(v6, port)
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: etherType(v6)})
	}
	if err != nil {
		syscall.Close(fd)
		return 0, os.NewSyscallError("packet socket", err)
	}
	return fd, nil
}

// etherType returns the protocol in network byte order.
func etherType(v6 bool) uint16 {
	kind := uint16(unix.ETH_P_IP)
	if v6 {
		kind = unix.ETH_P_IPV6
	}
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, kind))
}

// forPort is the filter of packetSocket. Packets begin with their IP header. Jumps are relative to the next line.
func forPort(v6 bool, port int) []unix.SockFilter {
	const (
		load8    = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		load16   = unix.BPF_LD | unix.BPF_H | unix.BPF_IND
		header   = unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH // the length of an IPv4 header
		constant = unix.BPF_LDX | unix.BPF_W | unix.BPF_IMM
		equal    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result   = unix.BPF_RET | unix.BPF_K
	)
	protocol, length := unix.SockFilter{Code: load8, K: 9}, unix.SockFilter{Code: header}
	if v6 {
		protocol, length = unix.SockFilter{Code: load8, K: 6}, unix.SockFilter{Code: constant, K: lengthIPv6}
	}
	return []unix.SockFilter{
		0: protocol,
		1: {Code: equal, K: protocolTCP, Jf: 4},
		2: length,
		3: {Code: load16, K: 2},
		4: {Code: equal, K: uint32(port), Jf: 1},
		5: {Code: result, K: 256},
		6: {Code: result, K: 0},
	}
}
