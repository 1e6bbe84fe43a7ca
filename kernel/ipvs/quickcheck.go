package ipvs

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// fewServices is the largest number of IPv4 virtual servers whose list QuickCheck reads, with their
// numbers of real servers. For more it only counts, because the kernel writes 104 bytes for each.
const fewServices = 256

// QuickCheck reports whether the tables still look as known. It takes one or two system calls. It compares
// the number of IPv4 virtual servers and, if these are few, how many real servers each has. The kernel does
// not count IPv6 ones (ip_vs_svc_hash, Linux 6.1), so it looks up one of them, another each time. A change
// that keeps the counts goes unnoticed.
func (t *Table) QuickCheck(known *kernel.State) (bool, error) {
	four, _ := slices.BinarySearchFunc(known.Virtuals, kernel.IPv6, func(v kernel.Virtual, f kernel.Family) int {
		if v.Key.Family() == f {
			return 0
		}
		return -1
	})
	there, err := t.opt.info()
	if err != nil {
		return false, fmt.Errorf("counting virtual servers: %w", t.unloaded(err))
	}
	same := there == four
	if same && 0 < four && four <= fewServices {
		same, err = t.sameCounts(known, four)
	}
	if six := known.Virtuals[four:]; same && err == nil && len(six) > 0 {
		t.lookups++
		same, err = t.isThere(six[t.lookups%len(six)].Key)
	}
	return same, err
}

// sameCounts reports whether the IPv4 virtual servers, the first four of the known ones, have as
// many real servers as known.
func (t *Table) sameCounts(known *kernel.State, four int) (bool, error) {
	services, err := t.opt.readServices(t.names)
	if err != nil {
		return false, fmt.Errorf("reading IPv4 virtual servers: %w", t.unloaded(err))
	}
	slices.SortFunc(services, func(a, b service) int { return a.Key.Compare(b.Key) })
	if len(services) != four {
		return false, nil
	}
	reals := known.Reals.Cursor()
	for i, s := range services {
		if n := len(reals.Next(s.Key)); s.Virtual != known.Virtuals[i] || s.reals != n {
			return false, nil
		}
	}
	return true, nil
}

// isThere reports whether a virtual server exists.
func (t *Table) isThere(k kernel.VirtualKey) (bool, error) {
	if err := t.lookup(); err != nil {
		return false, err
	}
	t.batch.Reset()
	putVirtualKey(&t.batch, t.family, cmdGetService, k)
	err := t.conn.Get(&t.batch, func([]byte) error { return nil })
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return err == nil, t.stale(err)
}
