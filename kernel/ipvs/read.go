package ipvs

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// Reading is the tables at one moment, as near as the kernel lets them be read: it has no lock
// across two calls.
type Reading struct {
	Virtuals []kernel.Virtual // sorted
	Reals    []kernel.Real    // sorted
	Conns    []kernel.Conns   // of Reals, by index
	FWMark   int              // virtual servers by firewall mark, which are nowhere above
}

// Read reads everything.
func (t *Table) Read() (Reading, error) {
	services, fwmark, err := t.services()
	if err != nil {
		return Reading{}, err
	}
	r := Reading{FWMark: fwmark}
	reals, six := 0, 0
	for _, s := range services {
		reals += s.reals
		if s.family == kernel.IPv6 {
			six++
		}
	}
	text := t.readProc(six, len(services))
	r.Virtuals = make([]kernel.Virtual, 0, len(services))
	r.Reals = make([]kernel.Real, 0, reals+len(text.dests))
	r.Conns = make([]kernel.Conns, 0, reals+len(text.dests))
	for _, s := range services {
		all, ok := text.get(s.Key)
		if !ok || s.Flags&kernel.FlagPersistent != 0 {
			if all, err = t.readDests(s.Key, s.reals, true); errors.Is(err, unix.ESRCH) {
				continue // gone since
			}
			if err != nil {
				return Reading{}, err
			}
		}
		r.Virtuals = append(r.Virtuals, s.Virtual)
		r.add(all)
	}
	return r, nil
}

// services returns the virtual servers sorted, and how many there are by firewall mark.
func (t *Table) services() (services []service, fwmark int, err error) {
	if services, err = t.readServices(); err != nil {
		return nil, 0, err
	}
	all := len(services)
	services = slices.DeleteFunc(services, func(s service) bool { return s.fwmark != 0 })
	fwmark = all - len(services)
	slices.SortFunc(services, func(a, b service) int { return a.Key.Compare(b.Key) })
	// A dump goes by position and can bring one twice when the table changes meanwhile.
	return slices.CompactFunc(services, func(a, b service) bool { return a.Key == b.Key }), fwmark, nil
}

// readServices returns the virtual servers of both families. Whether there are IPv6 ones is not to
// be had for less than the dump, which brings the IPv4 ones again: GET_INFO counts IPv4 only, and
// /proc/net/ip_vs, with its real servers, costs several times as much.
func (t *Table) readServices() ([]service, error) {
	four, err := t.opt.readServices(t.names)
	if err != nil {
		return nil, fmt.Errorf("reading IPv4 virtual servers: %w", t.unloaded(err))
	}
	six, err := t.dumpServices()
	if err != nil {
		return nil, fmt.Errorf("reading IPv6 virtual servers: %w", err)
	}
	return append(four, six...), nil
}

// readProc reads the real servers of the IPv6 virtual servers from /proc/net/ip_vs when these are
// many among all. It is only a shortcut: what is missing in it is dumped. Where other network
// namespaces have virtual servers much is missing: from one read(2) to the next the kernel counts
// those as well, but finds its place again without them (ip_vs_info_seq_next, ip_vs_info_array).
// By the instruction count on Linux 6.1 a dump costs as much as 20 to 25 lines of the text, in
// which the IPv4 ones stand too.
func (t *Table) readProc(six, all int) procDests {
	const few = 8
	if six <= few || six < all/few {
		return procDests{}
	}
	text, err := t.proc.read(false)
	if err != nil {
		return procDests{}
	}
	return text
}

// Reals reads the real servers of the given virtual servers only, and their connections, in the
// order given. One that is not there has none.
func (t *Table) Reals(virtuals []kernel.VirtualKey) ([]kernel.Real, []kernel.Conns, error) {
	var r Reading
	for _, v := range virtuals {
		all, err := t.readDests(v, 15, false)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, nil, err
		}
		r.add(all)
	}
	return r.Reals, r.Conns, nil
}

// readDests reads the real servers of one virtual server, of which n are expected, exactly so or
// about. The error is ESRCH if an IPv4 one is not there; of an IPv6 one the kernel does not tell.
func (t *Table) readDests(v kernel.VirtualKey, n int, exact bool) (all []dest, err error) {
	dump := v.Family() == kernel.IPv6
	if !dump {
		all, err = t.opt.readDests(v, n)
		// getsockopt leaves out what an IPv4 virtual server has at IPv6 addresses, by tunnel.
		dump = err == nil && exact && len(all) != n
	}
	if dump {
		all, err = t.dumpDests(v)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the real servers of %v: %w", v, t.unloaded(err))
	}
	return all, nil
}

// add takes in the real servers of one virtual server.
func (r *Reading) add(all []dest) {
	sortDests(all)
	for i, d := range all {
		if i > 0 && d.Key == all[i-1].Key {
			continue // a dump goes by position too
		}
		r.Reals = append(r.Reals, d.Real)
		r.Conns = append(r.Conns, d.Conns)
	}
}

// sortDests sorts one virtual server's real servers from the kernel's order: that
// added last comes first, and they were mostly added in order.
func sortDests(all []dest) {
	slices.Reverse(all)
	slices.SortFunc(all, func(a, b dest) int { return a.Key.Addr.Compare(b.Key.Addr) })
}
