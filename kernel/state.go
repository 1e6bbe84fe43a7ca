package kernel

import (
	"iter"
	"math/bits"
	"net/netip"
	"slices"
	"time"
)

// State is what the kernel should look like, or does: sorted slices of
// comparable values without duplicates. Its zero is a kernel with nothing of
// ours in it.
type State struct {
	Sysctls  []Sysctl
	Timeouts Timeouts // of IPVS; one that is 0 is left alone
	Sets     []Set
	Entries  []Entry
	Chains   []Chain
	Links    []Link
	Virtuals []Virtual
	Reals    []Real
	// VIPs are bound as addresses or made local by routes.
	Addrs     []Addr
	Routes    []Route
	Neighbors []Neighbor

	Policy Policy // of a wanted state: what Diff may do
}

// Policy is what Diff needs to know beside the objects themselves. Its zero
// removes what is ours and unwanted, at once or, where connections live, when
// the last has ended.
type Policy struct {
	// Hold keeps Diff from removing or draining anything: what is wanted is
	// not yet known in full.
	Hold bool
	// DeleteUnknown makes foreign virtual servers count as ours, but for those
	// inside ExcludeCIDRs.
	DeleteUnknown bool
	ExcludeCIDRs  []netip.Prefix
	// TakeLeft makes the virtual servers that kube-proxy left and nobody wants count
	// as ours.
	TakeLeft bool
	// DrainTimeout is the longest a real server drains; 0 is for ever.
	DrainTimeout time.Duration
	// Drains has the virtual servers with a DrainTimeout of their own, sorted.
	Drains []VirtualDrain
	// Claims are the VIPs that this node answers for on a link, sorted. With Probe
	// one is made local only once it is known that no other host there has it.
	Claims []Claim
	Probe  bool
}

// VirtualDrain is the drain timeout of one virtual server's real servers.
type VirtualDrain struct {
	Virtual VirtualKey
	Timeout time.Duration
}

// Sort brings the slices into the order that Diff needs and drops duplicates.
func (s *State) Sort() {
	for _, row := range Rows {
		if row.Objects != nil {
			row.Objects.sort(s)
		}
	}
	sortUnique(&s.Policy.Claims, Claim.Compare)
	sortUnique(&s.Policy.Drains, func(a, b VirtualDrain) int { return a.Virtual.Compare(b.Virtual) })
}

// Clone copies the slices of objects.
func (s State) Clone() State {
	for _, row := range Rows {
		if row.Objects != nil {
			row.Objects.clone(&s)
		}
	}
	return s
}

// Objects gives all objects, kind by kind.
func (s State) Objects() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		if s.Timeouts != (Timeouts{}) && !yield(s.Timeouts) {
			return
		}
		for _, row := range Rows {
			if row.Objects == nil {
				continue
			}
			for o := range row.Objects.All(s) {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// sortUnique keeps the first of those that compare as equal.
func sortUnique[T any](s *[]T, compare func(a, b T) int) {
	if ascending(*s, compare) { // as what comes from a reading mostly does
		return
	}
	slices.SortStableFunc(*s, compare)
	*s = slices.CompactFunc(*s, func(a, b T) bool { return compare(a, b) == 0 })
}

// ascending says whether a slice is sorted and no two of it are equal.
func ascending[T any](s []T, compare func(a, b T) int) bool {
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) >= 0 {
			return false
		}
	}
	return true
}

// minCapacity is ipset's default, and what kube-proxy creates its sets with: it
// refuses to work with one of another capacity. An unused place takes no memory.
const minCapacity = 1 << 16

// Capacity is the size to create a set with that must hold n entries: minCapacity
// as long as that suffices, then the next power of two above twice the need, so
// that it is seldom replaced by a larger one.
func Capacity(n int) uint32 {
	if n <= minCapacity {
		return minCapacity
	}
	return uint32(1) << bits.Len(uint(2*n))
}
