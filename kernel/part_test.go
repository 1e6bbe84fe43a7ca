package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestParts cuts tables of several sizes; each has as many virtual servers, with
// entries in KUBE-CLUSTER-IP, KUBE-IPVS-IPS and KUBE-VIRTUAL-SERVER.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		virtuals, reals, most int
		want                  string // the parts, with how many virtual servers each has the real servers of
	}{
		{0, 0, 30, "entries virtuals vips 0"},
		{1000, 10, 30, "entries virtuals vips 1000"},
		{5000, 5, 30, "entries; virtuals; vips 4000; 1000"},
		{10000, 10, 30, "entries; virtuals; vips 1250; 3750; 3750; 1250"},
		{10000, 10, 2, "entries virtuals; vips 10000"},
		{10000, 10, 1, "entries virtuals vips 10000"},
	} {
		t.Run(fmt.Sprintf("%dx%d in %d", c.virtuals, c.reals, c.most), func(t *testing.T) {
			s := bigState(c.virtuals, c.reals)
			parts := Parts(&s, c.most)
			if got := describe(parts, &s); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			covered(t, parts, &s)
		})
	}
}

// TestPartsKeepSetsWhole: a set is one piece, however much larger than a part.
func TestPartsKeepSetsWhole(t *testing.T) {
	s := bigState(100, 1)
	set := DefaultNames.Set(IPv6, LoopBack)
	for i := range 200_000 {
		a := netip.AddrFrom16([16]byte{0: 0xfd, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
		s.Entries = append(s.Entries, Entry{Set: set, Addr: a})
	}
	s.Sort()
	parts := Parts(&s, 30)
	if len(parts) != 2 {
		t.Errorf("%d parts, want one of the large set and one of the rest: %s", len(parts), describe(parts, &s))
	}
	covered(t, parts, &s)
}

func describe(parts []Part, s *State) string {
	var all []string
	for _, p := range parts {
		var has []string
		for _, set := range s.Sets {
			if p.HasEntries(set.Name) && (len(has) == 0) {
				has = append(has, "entries")
			}
		}
		if p.HasVirtuals() {
			has = append(has, "virtuals")
		}
		if p.HasVIPs() {
			has = append(has, "vips")
		}
		n := 0
		for _, v := range s.Virtuals {
			if p.HasReals(v.Key) {
				n++
			}
		}
		if n > 0 || p.to == Everything.to {
			has = append(has, fmt.Sprint(n))
		}
		all = append(all, strings.Join(has, " "))
	}
	return strings.Join(all, "; ")
}

// covered: all that a state has, and what may come to it, is in one part.
func covered(t *testing.T, parts []Part, s *State) {
	t.Helper()
	once := func(what any, in func(Part) bool) {
		n := 0
		for _, p := range parts {
			if in(p) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%v is in %d of %d parts", what, n, len(parts))
		}
	}
	once("virtual servers", Part.HasVirtuals)
	once("VIPs", Part.HasVIPs)
	for _, set := range append(s.Sets, Set{Name: "A"}, Set{Name: "KUBE-NEW"}, Set{Name: "z"}) {
		once(set, func(p Part) bool { return p.HasEntries(set.Name) })
	}
	others := []Virtual{{}, {Key: VirtualKey{netip.MustParseAddrPort("1.1.1.1:1"), UDP}}, {Key: VirtualKey{netip.MustParseAddrPort("[ff::1]:1"), TCP}}}
	for _, v := range append(others, s.Virtuals...) {
		once(v, func(p Part) bool { return p.HasReals(v.Key) })
	}
}
