package relay

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// Apply carries out ops on virtual and real servers and continues after errors. The result has one
// error per op, and is nil if all succeeded. The errors are those of IPVS.
//
// A virtual server listens at once, but takes its first connection when the call ends. So it has
// its real servers by then if the same call adds them. Connections that waited in an inherited
// listener would be refused otherwise.
func (r *Relay) Apply(ops []kernel.Op) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	var added []*service
	for i, op := range ops {
		s, err := r.apply(op)
		if s != nil {
			added = append(added, s)
		}
		if err != nil {
			if errs == nil {
				errs = make([]error, len(ops))
			}
			errs[i] = err
		}
	}
	for _, s := range added {
		if r.services[s.key] == s {
			s.listener.start()
		}
	}
	return errs
}

// apply carries out one op. It returns a virtual server that was added.
func (r *Relay) apply(op kernel.Op) (added *service, err error) {
	if r.closed {
		return nil, net.ErrClosed
	}
	switch o := op.Object.(type) {
	case kernel.Virtual:
		return r.virtual(op.Verb, o)
	case kernel.Real:
		s := r.services[o.Key.Virtual]
		if s == nil {
			return nil, refused("no such virtual server", syscall.ESRCH)
		}
		if op.Verb != kernel.Remove {
			if err := checkReal(o); err != nil {
				return nil, err
			}
		}
		return nil, s.real(op.Verb, o)
	}
	return nil, fmt.Errorf("the relay does not handle objects of kind %v", op.Object.Kind())
}

func (r *Relay) virtual(verb kernel.Verb, v kernel.Virtual) (added *service, err error) {
	s := r.services[v.Key]
	switch {
	case verb == kernel.Add && s != nil:
		return nil, refused("there is such a virtual server already", syscall.EEXIST)
	case verb != kernel.Add && s == nil:
		return nil, refused("no such virtual server", syscall.ESRCH)
	case verb == kernel.Remove:
		r.remove(s)
		return nil, nil
	}
	if err := checkVirtual(v); err != nil {
		return nil, err
	}
	if verb == kernel.Change {
		s.change(v)
		return nil, nil
	}
	if s, err = r.newService(v); err != nil {
		return nil, err
	}
	r.services[v.Key] = s
	return s, nil
}

// remove closes a virtual server. Its TCP connections end now, or Linger later at the latest.
func (r *Relay) remove(s *service) {
	delete(r.services, s.key)
	s.listener.end()
	if r.o.Linger == 0 || s.key.Proto != kernel.TCP {
		s.cut()
		return
	}
	r.leaving[s] = time.AfterFunc(r.o.Linger, func() {
		r.mu.Lock()
		delete(r.leaving, s)
		r.mu.Unlock()
		s.cut()
	})
}

// refused is the error of IPVS in words. errors.Is finds the errno.
func refused(text string, errno syscall.Errno) error { return fmt.Errorf("%s (%w)", text, errno) }

func checkVirtual(v kernel.Virtual) error {
	switch {
	case v.Key.Proto == kernel.SCTP:
		return refused("mode userspace does not relay SCTP: it needs mode ipvs or iptables", syscall.EPROTONOSUPPORT)
	case v.Key.Proto != kernel.TCP && v.Key.Proto != kernel.UDP:
		return refused(fmt.Sprintf("mode userspace does not relay protocol %v", v.Key.Proto), syscall.EPROTONOSUPPORT)
	case v.Flags&kernel.FlagOnePacket != 0:
		return refused("the relay does not schedule each packet alone", syscall.EOPNOTSUPP)
	case v.Key.Port == 0 || v.Key.Addr.IsUnspecified() || !v.Key.Addr.IsValid():
		return refused("a virtual server needs an address and a port", syscall.EINVAL)
	case int(v.Netmask) > v.Key.Family().Bits() || v.Netmask == 0 && v.Key.Family() == kernel.IPv6:
		return refused(fmt.Sprintf("no netmask of %v: %d", v.Key.Family(), v.Netmask), syscall.EINVAL)
	}
	return checkScheduler(v.Scheduler)
}

// checkScheduler returns ENOENT for a scheduler that the relay does not have, as IPVS does.
func checkScheduler(name string) error {
	if slices.Contains(kernel.RelaySchedulers, name) {
		return nil
	}
	return fmt.Errorf("%w %q: mode userspace has %q (%w)", ErrScheduler, name, kernel.RelaySchedulers, syscall.ENOENT)
}

// maxWeight is the largest weight that IPVS takes.
const maxWeight = 1<<31 - 1

func checkReal(o kernel.Real) error {
	switch {
	case o.Forward != kernel.Masquerade:
		return refused("the relay has no way to forward but its own connections (masquerading)", syscall.EOPNOTSUPP)
	case o.Weight > maxWeight:
		return refused(fmt.Sprintf("the largest weight is %d", maxWeight), syscall.ERANGE)
	case o.Lower > o.Upper:
		return refused("the lower threshold is above the upper one", syscall.ERANGE)
	case o.Key.Addr.Port() == 0 || !isUnicast(o.Key.Addr.Addr()):
		return refused("a real server needs a unicast address and a port", syscall.EINVAL)
	case kernel.FamilyOf(o.Key.Addr.Addr()) != o.Key.Virtual.Family():
		return refused("a real server has the family of its virtual server", syscall.EINVAL)
	}
	return nil
}

func isUnicast(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
