package kernel

import (
	"iter"
	"math/bits"
	"net/netip"
	"slices"
	"time"
)

// State is what the kernel should look like, or does: sorted slices of comparable values
// without duplicates. Its zero is a kernel without owned objects.
type State struct {
	Sysctls    []Sysctl
	Timeouts   Timeouts // of IPVS; 0 leaves a timeout as it is
	Sets       []Set
	Entries    Entries
	Chains     []Chain
	Flowtables []Flowtable  // at most one of each family
	Others     []OtherChain // in back ends that are not written
	Links      []Link
	Virtuals   []Virtual
	Reals      Reals
	Daemons    []SyncDaemon // at most one of each role
	// A VIP is made local by an address or by a route.
	Addrs     []Addr
	Routes    []Route
	Neighbors []Neighbor
	// Announcements tell routing daemons which VIPs this node serves.
	Announcements []Announcement

	Policy Policy // of a wanted state: what plan.Diff may do
}

// Policy says what Diff may do to the kernel. With its zero, Diff removes every owned
// object that is unwanted; real servers with connections drain first.
type Policy struct {
	// Hold keeps Diff from removing or draining anything, since not every source has
	// delivered its table yet.
	Hold bool
	// More of what is wanted follows in later plans: Diff leaves teardown to them, see tearLater.
	More bool
	// DeleteUnknown makes Diff treat foreign virtual servers as owned, except those
	// inside ExcludeCIDRs.
	DeleteUnknown bool
	ExcludeCIDRs  []netip.Prefix
	// TakeLeft makes Diff treat as owned the virtual servers that kube-proxy left and no
	// service wants.
	TakeLeft bool
	// DrainTimeout is how long a real server may drain; 0 means forever.
	DrainTimeout time.Duration
	// Drains lists the virtual servers with a DrainTimeout of their own, sorted.
	Drains []VirtualDrain
	// Cut lists real servers whose connections are to end, sorted. If one is unwanted,
	// Diff removes it at once, also with Hold: the table names it.
	Cut []RealKey
	// DrainVirtuals makes Diff drain virtual servers that nothing wants, before it removes
	// them.
	DrainVirtuals bool
	// DrainRules makes Diff drain endpoints that rules no longer lead to, if they have a
	// drain timeout, and remove their tracked connections after it. Quiesced lists the
	// wanted real servers that no rule leads to because their weight is 0, sorted: they do
	// not drain.
	DrainRules bool
	Quiesced   []RealKey
	// Claims lists the VIPs that this node answers for on a link, sorted. With Probe a
	// VIP is made local only when no other host on the link answers for it.
	Claims []Claim
	Probe  bool
}

// VirtualDrain is the drain timeout of one virtual server's real servers.
type VirtualDrain struct {
	Virtual VirtualKey
	Timeout time.Duration
}

// Sort sorts the slices as Diff needs them and drops duplicates.
func (s *State) Sort() {
	for _, row := range Rows {
		if row.Objects != nil {
			row.Objects.sort(s)
		}
	}
	sortUnique(&s.Policy.Claims, Claim.Compare)
	sortUnique(&s.Policy.Drains, func(a, b VirtualDrain) int { return a.Virtual.Compare(b.Virtual) })
	sortUnique(&s.Policy.Cut, RealKey.Compare)
	sortUnique(&s.Policy.Quiesced, RealKey.Compare)
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

// sortUnique sorts, and keeps the first of elements that compare as equal.
func sortUnique[T any](s *[]T, compare func(a, b T) int) {
	if ascending(*s, compare) { // mostly so in readings
		return
	}
	SortStableFunc(*s, compare)
	*s = slices.CompactFunc(*s, func(a, b T) bool { return compare(a, b) == 0 })
}

// ascending reports whether a slice is sorted and has no equal elements.
func ascending[T any](s []T, compare func(a, b T) int) bool {
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) >= 0 {
			return false
		}
	}
	return true
}

// minCapacity is ipset's default and the capacity of kube-proxy's sets. kube-proxy
// refuses to work with sets of another capacity. Unused capacity takes no memory.
const minCapacity = 1 << 16

// Capacity returns the capacity of a new set for n entries: minCapacity if that
// suffices, otherwise the next power of two above 2n. The spare room makes it rare
// that a larger set must replace it.
func Capacity(n int) uint32 {
	if n <= minCapacity {
		return minCapacity
	}
	return uint32(1) << bits.Len(uint(2*n))
}
