package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
)

// Connection explains a packet of a connection that may be established: where it is and why, and what would become of
// a new one.
func Connection(f Facts, p packet.Packet) (Answer, error) {
	key := kernel.VirtualAt(p.Dst, p.Proto)
	v := kernel.Virtual{Key: key, Netmask: uint8(key.Family().Bits())}
	if i, found := kernel.FindVirtual(f.Kernel.Virtuals, key); found {
		v = f.Kernel.Virtuals[i]
	}
	c, err := f.Connection(v, p.Src)
	if err != nil {
		return Answer{}, err
	}
	if f.keyOf(p) != key { // IPVS keeps clients of a mark by the mark, not by the address
		c.Kept = netip.AddrPort{}
	}
	a := Explain(f, p)
	at := c.Real
	if !at.IsValid() && c.Replies != p.Dst {
		at = c.Replies
	}
	var steps []Step
	step := func(format string, args ...any) {
		steps = append(steps, Step{Stage: stageConnection, Text: fmt.Sprintf(format, args...)})
	}
	if c.Real.IsValid() {
		step("IPVS has it at %s: %s, for %d s more without packets", c.Real, c.State, c.Expires)
	}
	if c.Kept.IsValid() {
		step("IPVS keeps the client at %s for %d s more", c.Kept, c.KeptFor)
	}
	if c.Replies.IsValid() {
		step("connection tracking expects replies from %s to %s", c.Replies, c.To)
	}
	if at.IsValid() {
		step("%s", f.stays(&a, p, at))
		a.Fate, a.Sentence = Served, fmt.Sprintf("the connection is at %s; a new one: %s", at, a.Sentence)
	} else {
		step("neither IPVS nor connection tracking has it at a backend: what follows is about a new connection")
	}
	a.Steps = append(steps, a.Steps...)
	return a, nil
}

// stays says how a connection's backend stands for new connections.
func (f *Facts) stays(a *Answer, p packet.Packet, at netip.AddrPort) string {
	i := slices.IndexFunc(a.Backends, func(b Backend) bool { return serves(b.Address, at) })
	switch {
	case i >= 0 && !a.Backends[i].Usable:
		return fmt.Sprintf("%s has weight 0: connections that it has go on, and it gets no new ones", at)
	case i >= 0:
		return fmt.Sprintf("%s also gets new connections", at)
	}
	if mark := f.markOf(at); mark != 0 {
		return fmt.Sprintf("%s is no backend of %s, but one of firewall mark %d: --mark %d says what becomes of a new "+
			"connection", at, f.keyOf(p), mark, mark)
	}
	return fmt.Sprintf("%s is no backend any more: the connection ends with its entry", at)
}

// markOf returns the first firewall mark whose virtual server has a backend; 0 if there is none. The kernel
// does not say which virtual server a connection came by.
func (f *Facts) markOf(at netip.AddrPort) uint32 {
	for _, r := range f.Kernel.Reals.All() {
		if mark := r.Key.Virtual.Mark(); mark != 0 && serves(r.Key.Addr, at) {
			return mark
		}
	}
	return 0
}

// serves reports whether a backend has a connection that is at an address and port. One of port 0, as
// firewall marks have them, has its connections at the ports that clients choose.
func serves(backend, at netip.AddrPort) bool {
	return backend == at || backend.Port() == 0 && backend.Addr() == at.Addr()
}
