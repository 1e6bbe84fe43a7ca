package ipvs

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// Reading is the tables at one moment, as far as the kernel allows: no lock spans two calls.
type Reading struct {
	Virtuals []kernel.Virtual // sorted
	Reals    []kernel.Real    // sorted
	Conns    []kernel.Conns   // parallel to Reals
}

// Read reads everything.
func (t *Table) Read() (Reading, error) {
	services, err := t.services()
	if err != nil {
		return Reading{}, err
	}
	var r Reading
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
		if !ok || s.Flags&kernel.FlagPersistent != 0 || t.limits.of[s.Key] || slices.ContainsFunc(all, tunnelled) {
			if all, err = t.readDests(s.Key, s.reals, true); errors.Is(err, unix.ESRCH) {
				continue // removed meanwhile
			}
			if err != nil {
				return Reading{}, err
			}
		}
		r.Virtuals = append(r.Virtuals, s.Virtual)
		r.add(all)
	}
	t.limits.known = true
	t.limits.read(r.Virtuals)
	return r, nil
}

// services returns the virtual servers, sorted.
func (t *Table) services() (services []service, err error) {
	if services, err = t.readServices(); err != nil {
		return nil, err
	}
	slices.SortFunc(services, func(a, b service) int { return a.Key.Compare(b.Key) })
	// A dump goes by position. If the table changes meanwhile, it can return one twice.
	return slices.CompactFunc(services, func(a, b service) bool { return a.Key == b.Key }), nil
}

// readServices returns the virtual servers of both families. No call cheaper than the dump says
// whether there are IPv6 ones, and the dump returns the IPv4 ones again. GET_INFO counts IPv4 only,
// and /proc/net/ip_vs costs several times as much, because it has the real servers.
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

// readProc reads the real servers of IPv6 virtual servers from /proc/net/ip_vs if these are many
// among all, and not in the first reading; see limits. Real servers that are missing there are dumped.
//
// Many are missing if other network namespaces have virtual servers. From one read(2) to the next
// the kernel counts those too, but finds its position again without them (ip_vs_info_seq_next,
// ip_vs_info_array). On Linux 6.1 a dump costs as many instructions as 20 to 25 lines of the text,
// and the text also has the IPv4 ones.
func (t *Table) readProc(six, all int) procDests {
	const few = 8
	if six <= few || six < all/few || !t.limits.known {
		return procDests{}
	}
	text, err := t.proc.read(false)
	if err != nil {
		return procDests{}
	}
	return text
}

// Reals reads the real servers of these virtual servers, and their connections, in the given order.
// A virtual server that does not exist has none.
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

// readDests reads the real servers of one virtual server. n are expected, exactly or about. If an
// IPv4 virtual server does not exist, the error is ESRCH. For IPv6 the kernel does not tell.
func (t *Table) readDests(v kernel.VirtualKey, n int, exact bool) (all []dest, err error) {
	dump := v.Family() == kernel.IPv6
	if !dump {
		all, err = t.opt.readDests(v, n)
		// getsockopt omits the real servers of an IPv4 virtual server that have IPv6 addresses
		// (tunnels), and does not tell the type of a tunnel.
		dump = err == nil && (exact && len(all) != n || slices.ContainsFunc(all, tunnelled))
	}
	if dump {
		all, err = t.dumpDests(v)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the real servers of %v: %w", v, t.unloaded(err))
	}
	return all, nil
}

func tunnelled(d dest) bool { return d.Forward == kernel.Tunnel }

// add adds the real servers of one virtual server.
func (r *Reading) add(all []dest) {
	sortDests(all)
	for i, d := range all {
		if i > 0 && d.Key == all[i-1].Key {
			continue // a duplicate: a dump goes by position
		}
		r.Reals = append(r.Reals, d.Real)
		r.Conns = append(r.Conns, d.Conns)
	}
}

// sortDests sorts the real servers of one virtual server. The kernel lists the last added first,
// and most were added in order.
func sortDests(all []dest) {
	slices.Reverse(all)
	slices.SortFunc(all, func(a, b dest) int { return a.Key.Addr.Compare(b.Key.Addr) })
}
