package ipvs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// VirtualsUnchanged says whether the virtual servers are those known, fwmark of them
// by firewall mark, and, where the kernel tells, with as many real servers.
func (t *Table) VirtualsUnchanged(known *kernel.State, fwmark int) (bool, error) {
	services, marked, err := t.services()
	if err != nil || marked != fwmark || len(services) != len(known.Virtuals) {
		return false, err
	}
	reals := known.Reals
	for i, s := range services {
		n := len(kernel.NextReals(&reals, s.Key))
		// An IPv4 one's at IPv6 addresses do not show where the others are read.
		if s.Virtual != known.Virtuals[i] || s.family == kernel.IPv4 && s.reals != n {
			return false, nil
		}
	}
	return true, nil
}

// RealsUnchanged says whether the known virtual servers that has names have the known
// real servers, whatever their connections, and no others.
func (t *Table) RealsUnchanged(known *kernel.State, has func(kernel.VirtualKey) bool) (bool, error) {
	reals := known.Reals
	for _, v := range known.Virtuals {
		want := kernel.NextReals(&reals, v.Key)
		if !has(v.Key) {
			continue
		}
		all, err := t.readDests(v.Key, len(want), true)
		if errors.Is(err, unix.ESRCH) {
			return false, nil // gone
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

// sameDests says whether real servers in the kernel's order are those wanted, sorted.
func sameDests(all []dest, want []kernel.Real) bool {
	sortDests(all)
	for i := range all {
		if all[i].Real != want[i] {
			return false
		}
	}
	return true
}
