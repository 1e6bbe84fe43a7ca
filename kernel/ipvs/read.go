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
	services, err := t.opt.readServices(t.names)
	if err != nil {
		return Reading{}, fmt.Errorf("reading virtual servers: %w", t.unloaded(err))
	}
	six, err := t.dumpServices()
	if err != nil {
		return Reading{}, fmt.Errorf("reading IPv6 virtual servers: %w", err)
	}
	services = append(services, six...)
	var r Reading
	services = slices.DeleteFunc(services, func(s service) bool {
		if s.fwmark != 0 {
			r.FWMark++
		}
		return s.fwmark != 0
	})
	// A dump goes by position and can bring one twice when the table changes meanwhile.
	slices.SortFunc(services, func(a, b service) int { return a.Key.Compare(b.Key) })
	services = slices.CompactFunc(services, func(a, b service) bool { return a.Key == b.Key })

	reals := 0
	for _, s := range services {
		reals += s.reals
	}
	r.Virtuals = make([]kernel.Virtual, 0, len(services))
	r.Reals = make([]kernel.Real, 0, reals)
	r.Conns = make([]kernel.Conns, 0, reals)
	for _, s := range services {
		there, err := t.readReals(s.Key, s.reals, true, &r)
		if err != nil {
			return Reading{}, err
		}
		if there {
			r.Virtuals = append(r.Virtuals, s.Virtual)
		}
	}
	return r, nil
}

// Reals reads the real servers of the given virtual servers only, and their connections, in the
// order given. One that is not there has none.
func (t *Table) Reals(virtuals []kernel.VirtualKey) ([]kernel.Real, []kernel.Conns, error) {
	var r Reading
	for _, v := range virtuals {
		if _, err := t.readReals(v, 15, false, &r); err != nil {
			return nil, nil, err
		}
	}
	return r.Reals, r.Conns, nil
}

// readReals adds the real servers of one virtual server to r; n are expected, exactly so or about.
// It says whether the virtual server is there, as far as the kernel tells.
func (t *Table) readReals(v kernel.VirtualKey, n int, exact bool, r *Reading) (there bool, err error) {
	var all []dest
	dump := true
	if v.Family() == kernel.IPv4 {
		all, err = t.opt.readDests(v, n)
		if errors.Is(err, unix.ESRCH) {
			return false, nil
		}
		// getsockopt leaves out what an IPv4 virtual server has at IPv6 addresses, by tunnel.
		dump = err == nil && exact && len(all) != n
	}
	if dump {
		all, err = t.dumpDests(v)
	}
	if err != nil {
		return false, fmt.Errorf("reading the real servers of %v %v: %w", v.Proto, v.Addr, t.unloaded(err))
	}
	slices.SortFunc(all, func(a, b dest) int { return a.Key.Addr.Compare(b.Key.Addr) })
	all = slices.CompactFunc(all, func(a, b dest) bool { return a.Key == b.Key })
	for _, d := range all {
		r.Reals = append(r.Reals, d.Real)
		r.Conns = append(r.Conns, d.Conns)
	}
	return true, nil
}
