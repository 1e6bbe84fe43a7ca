package relay

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/svcproxy/svcproxy/kernel"
)

// Ports are those that portals may listen on. The zero value leaves the choice to the kernel.
type Ports struct{ First, Last uint16 }

func (p Ports) has(port uint16) bool {
	return p == Ports{} || p.First <= port && port <= p.Last
}

// Reserve opens the listeners of virtual servers that are about to be added, sorted. It returns those that
// cannot listen on their own address and port because another program does, mostly on all addresses:
// OpenPortal is for them. Any other error is that of the virtual server's addition.
//
// Listeners that it opened earlier for virtual servers that are not among these are closed.
func (r *Relay) Reserve(keys []kernel.VirtualKey) (taken []kernel.VirtualKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.dropReserved(keys)
	for _, k := range keys {
		have, inherited := r.inherited[k]
		_, isPortal := r.portals[k]
		if r.services[k] != nil || inherited && (isPortal || have.addr() == k.AddrPort()) || !r.files.take(1) {
			continue
		}
		s, err := open(k.Proto, k.AddrPort())
		if err == nil {
			r.reserve(k, s)
			continue
		}
		r.files.give(1)
		if errors.Is(err, syscall.EADDRINUSE) {
			taken = append(taken, k)
		}
	}
	return taken
}

// dropReserved closes what Reserve and OpenPortal opened for other virtual servers than these. r.mu is held.
func (r *Relay) dropReserved(keys []kernel.VirtualKey) {
	wanted := func(k kernel.VirtualKey) bool {
		_, found := slices.BinarySearchFunc(keys, k, kernel.VirtualKey.Compare)
		return found
	}
	for k := range r.reserved {
		s, waits := r.inherited[k]
		if waits && wanted(k) {
			continue
		}
		delete(r.reserved, k)
		if waits {
			r.drop(k, s)
		}
	}
	// A virtual server that went and came back is not listening on its portal's port any more.
	for k, at := range r.portals {
		s, waits := r.inherited[k]
		if r.services[k] == nil && !(wanted(k) && waits && s.addr() == at) {
			delete(r.portals, k)
		}
	}
}

// reserve keeps a listener until its virtual server is added, instead of one that was inherited. r.mu is held.
func (r *Relay) reserve(k kernel.VirtualKey, s socket) {
	if old, ok := r.inherited[k]; ok {
		r.drop(k, old)
	}
	r.inherited[k], r.reserved[k] = s, true
}

// drop closes a listener that no virtual server has taken. r.mu is held.
func (r *Relay) drop(k kernel.VirtualKey, s socket) {
	delete(r.inherited, k)
	s.shut()
	s.close()
	r.files.give(1)
}

// OpenPortal lets a virtual server that is about to be added listen on another port of its address. Rules
// have to redirect its packets there: see Portals. If the last process had a portal with one of these ports,
// its listener is used.
func (r *Relay) OpenPortal(k kernel.VirtualKey, ports Ports) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return net.ErrClosed
	}
	if have, ok := r.inherited[k]; ok && have.addr().Addr() == k.Addr && ports.has(have.addr().Port()) {
		r.portals[k] = have.addr()
		return nil
	}
	if !r.files.take(1) {
		return refused("the limit of open files is reached", syscall.EMFILE)
	}
	s, err := openOneOf(k, ports)
	if err != nil {
		r.files.give(1)
		return err
	}
	r.reserve(k, s)
	r.portals[k] = s.addr()
	return nil
}

// openOneOf listens on the first free port. Where it begins depends on the virtual server alone, so that a
// restart finds the same one again.
func openOneOf(k kernel.VirtualKey, ports Ports) (socket, error) {
	if ports == (Ports{}) {
		return open(k.Proto, netip.AddrPortFrom(k.Addr, 0))
	}
	hash := fnv.New32a()
	hash.Write([]byte(k.String()))
	n := uint32(ports.Last-ports.First) + 1
	for i := range n {
		port := ports.First + uint16((hash.Sum32()%n+i)%n)
		s, err := open(k.Proto, netip.AddrPortFrom(k.Addr, port))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return s, err
		}
	}
	return socket{}, fmt.Errorf("each port from %d to %d is in use at %v: %w", ports.First, ports.Last, k.Addr,
		syscall.EADDRINUSE)
}

// Portals returns where the virtual servers listen that OpenPortal was called for.
func (r *Relay) Portals() map[kernel.VirtualKey]netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.portals)
}
