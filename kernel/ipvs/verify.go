package ipvs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// VerifyVirtuals reports whether the virtual servers are those known, with as many real servers where the
// kernel tells their number.
func (t *Table) VerifyVirtuals(known *kernel.State) (bool, error) {
	services, err := t.services()
	if err != nil || len(services) != len(known.Virtuals) {
		return false, err
	}
	reals := known.Reals.Cursor()
	for i, s := range services {
		n := len(reals.Next(s.Key))
		// The count of an IPv4 one includes real servers at IPv6 addresses, which getsockopt does
		// not list.
		if s.Virtual != known.Virtuals[i] || s.family == kernel.IPv4 && s.reals != n {
			return false, nil
		}
	}
	return true, nil
}

// VerifyReals reports whether the known virtual servers selected by has have exactly the known real
// servers. Connections do not count.
func (t *Table) VerifyReals(known *kernel.State, has func(kernel.VirtualKey) bool) (bool, error) {
	reals := known.Reals.Cursor()
	for _, v := range known.Virtuals {
		want := reals.Next(v.Key)
		if !has(v.Key) {
			continue
		}
		all, err := t.readDests(v.Key, len(want), true)
		if errors.Is(err, unix.ESRCH) {
			return false, nil // removed
		}
		if err != nil || len(all) != len(want) {
			return false, err
		}
		if !sameDests(all, want) {
			return false, nil
		}
	}
	return true, nil
}

// sameDests reports whether real servers in the kernel's order equal those wanted, which are
// sorted.
func sameDests(all []dest, want []kernel.Real) bool {
	sortDests(all)
	for i := range all {
		if all[i].Real != want[i] {
			return false
		}
	}
	return true
}
