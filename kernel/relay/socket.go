package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// socket is a listening socket: one of the two.
type socket struct {
	tcp *net.TCPListener
	udp *net.UDPConn
}

// open binds a socket. The address need not be on this node yet (IP_FREEBIND): every plan adds
// virtual servers before their addresses.
func open(p kernel.Proto, at netip.AddrPort) (socket, error) {
	lc := net.ListenConfig{KeepAlive: -1, Control: freebind} // accepted connections get keepAlive
	lc.SetMultipathTCP(false)                                // splice(2) needs plain TCP
	if p == kernel.UDP {
		c, err := lc.ListenPacket(context.Background(), network("udp", at.Addr()), at.String())
		if err != nil {
			return socket{}, inUse(err)
		}
		return socket{udp: c.(*net.UDPConn)}, nil
	}
	l, err := lc.Listen(context.Background(), network("tcp", at.Addr()), at.String())
	if err != nil {
		return socket{}, inUse(err)
	}
	return socket{tcp: l.(*net.TCPListener)}, nil
}

func network(name string, a netip.Addr) string {
	if a.Is4() {
		return name + "4"
	}
	return name + "6"
}

func freebind(_, _ string, c syscall.RawConn) error {
	var err error
	control := c.Control(func(fd uintptr) {
		// Each kind of socket has one of the two.
		err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
		if six := unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1); six == nil {
			err = nil
		}
	})
	return errors.Join(control, err)
}

// inUse says why an address is in use.
func inUse(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another program listens there, perhaps on all addresses: %w", err)
	}
	return err
}

func (s socket) addr() netip.AddrPort {
	var a netip.AddrPort
	if s.udp != nil {
		a = s.udp.LocalAddr().(*net.UDPAddr).AddrPort()
	} else {
		a = s.tcp.Addr().(*net.TCPAddr).AddrPort()
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func (s socket) raw() (syscall.RawConn, error) {
	if s.udp != nil {
		return s.udp.SyscallConn()
	}
	return s.tcp.SyscallConn()
}

func (s socket) close() {
	if s.udp != nil {
		s.udp.Close()
	} else {
		s.tcp.Close()
	}
}

// shut ends listening in all duplicates of the socket, also where File has given it away. Otherwise
// the kernel would go on connecting clients, and no process would serve them. A socket of UDP keeps
// its port until all duplicates are closed.
func (s socket) shut() {
	if s.tcp == nil {
		return
	}
	if raw, err := s.raw(); err == nil {
		raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// filePrefix starts the names of listeners.
const filePrefix = "relay-"

// FileName is the name of a virtual server's listener in systemd's store of file descriptors, as in
// relay-tcp-10.96.0.1-80. FDNAME may have no colon, so IPv6 addresses have "_".
func FileName(k kernel.VirtualKey) string {
	a := strings.ReplaceAll(k.Addr.String(), ":", "_")
	return fmt.Sprintf("%s%v-%s-%d", filePrefix, k.Proto, a, k.Port)
}

// ParseFileName returns the virtual server that a listener with this name belongs to.
func ParseFileName(name string) (kernel.VirtualKey, bool) {
	rest, ok := strings.CutPrefix(name, filePrefix)
	f := strings.Split(rest, "-")
	if !ok || len(f) != 3 {
		return kernel.VirtualKey{}, false
	}
	proto, err := kernel.ParseProto(f[0])
	addr, err2 := netip.ParseAddr(strings.ReplaceAll(f[1], "_", ":"))
	port, err3 := strconv.ParseUint(f[2], 10, 16)
	k := kernel.VirtualKey{Addr: addr, Port: uint16(port), Proto: proto}
	// Only the one spelling that FileName gives is a name.
	return k, err == nil && err2 == nil && err3 == nil && addr.Zone() == "" && FileName(k) == name
}

// File returns a duplicate of a virtual server's listener with its FileName, for systemd's store; nil if it
// does not exist. A process that gets it in Options.Inherited loses no connection that waits in it. The
// caller closes the file; the relay may be closed before or after. A listener over UDP that is removed from
// the relay has to be removed from the store, too (FDSTOREREMOVE), or its port stays in use.
func (r *Relay) File(k kernel.VirtualKey) (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.services[k]
	if s == nil {
		return nil, nil
	}
	f, err := s.listener.duplicate(FileName(k))
	if err != nil {
		return nil, fmt.Errorf("duplicating the listener of %v: %w", k, err)
	}
	return f, nil
}

// duplicate is net.TCPListener.File with a name.
func (s socket) duplicate(name string) (*os.File, error) {
	raw, err := s.raw()
	if err != nil {
		return nil, err
	}
	dup := -1
	if e := raw.Control(func(fd uintptr) { dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(dup), name), nil
}

// inherit keeps listeners until their virtual servers are added.
func (r *Relay) inherit(all []*os.File) {
	r.inherited = map[kernel.VirtualKey]socket{}
	for _, f := range all {
		k, ok := ParseFileName(f.Name())
		if !ok {
			continue
		}
		s, ok := adopt(f, k.Proto)
		f.Close() // adopt has a duplicate
		switch {
		case !ok:
		case r.inherited[k] != socket{} || !r.files.take(1):
			s.close()
		default:
			r.inherited[k] = s
		}
	}
}

// adopt makes a listener of a file, if it is one of that protocol.
func adopt(f *os.File, p kernel.Proto) (socket, bool) {
	if p == kernel.UDP {
		c, err := net.FilePacketConn(f)
		if err != nil {
			return socket{}, false
		}
		u, ok := c.(*net.UDPConn)
		if !ok {
			c.Close()
		}
		return socket{udp: u}, ok
	}
	l, err := net.FileListener(f)
	if err != nil {
		return socket{}, false
	}
	t, ok := l.(*net.TCPListener)
	if !ok || !listens(t) {
		l.Close()
		return socket{}, false
	}
	return socket{tcp: t}, true
}

func listens(l *net.TCPListener) bool {
	raw, err := l.SyscallConn()
	if err != nil {
		return false
	}
	accepts := 0
	err = raw.Control(func(fd uintptr) { accepts, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN) })
	return err == nil && accepts == 1
}

// CloseUnused closes inherited listeners that no virtual server has taken. It is called when all
// that is wanted has been applied once.
func (r *Relay) CloseUnused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.inherited {
		s.shut()
	}
	r.closeInherited()
}

// closeInherited closes the relay's own duplicates. r.mu is held.
func (r *Relay) closeInherited() {
	for k, s := range r.inherited {
		delete(r.inherited, k)
		s.close()
		r.files.give(1)
	}
}
