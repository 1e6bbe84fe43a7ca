package plan_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

// TestShards cuts tables of several sizes. Each virtual server has entries in
// KUBE-CLUSTER-IP, KUBE-IPVS-IPS and KUBE-VIRTUAL-SERVER.
func TestShards(t *testing.T) {
	for _, c := range []struct {
		virtuals, reals, most int
		want                  string // the shards; a number counts virtual servers whose real servers are in the shard
	}{
		{0, 0, 30, "entries virtuals vips 0"},
		{1000, 10, 30, "entries virtuals vips 1000"},
		{5000, 5, 30, "entries; virtuals; vips 4000; 1000"},
		{10000, 10, 30, "entries; virtuals; vips 1250; 3750; 3750; 1250"},
		{10000, 10, 2, "entries virtuals; vips 10000"},
		{10000, 10, 1, "entries virtuals vips 10000"},
	} {
		t.Run(fmt.Sprintf("%dx%d in %d", c.virtuals, c.reals, c.most), func(t *testing.T) {
			s := world.Large(c.virtuals, c.reals)
			shards := plan.Shards(&s, c.most)
			if got := describe(shards, &s); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			covered(t, shards, &s)
		})
	}
}

// A set is one piece, even if it is much larger than a shard.
func TestShardsKeepSetsWhole(t *testing.T) {
	s := world.Large(100, 1)
	set := kernel.DefaultNames.Set(kernel.IPv6, kernel.LoopBack)
	entries := s.Entries.Slice()
	for i := range 200_000 {
		a := netip.AddrFrom16([16]byte{0: 0xfd, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
		entries = append(entries, kernel.Entry{Set: set, Addr: a})
	}
	s.Entries = kernel.EntriesOf(entries)
	s.Sort()
	shards := plan.Shards(&s, 30)
	if len(shards) != 2 {
		t.Errorf("%d shards, want one of the large set and one of the rest: %s", len(shards), describe(shards, &s))
	}
	covered(t, shards, &s)
}

func describe(shards []plan.Shard, s *kernel.State) string {
	var all []string
	for _, p := range shards {
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
		if n > 0 || p.Last() {
			has = append(has, fmt.Sprint(n))
		}
		all = append(all, strings.Join(has, " "))
	}
	return strings.Join(all, "; ")
}

// covered checks that every object, and every object that may be added, is in exactly
// one shard.
func covered(t *testing.T, shards []plan.Shard, s *kernel.State) {
	t.Helper()
	once := func(what any, in func(plan.Shard) bool) {
		n := 0
		for _, p := range shards {
			if in(p) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%v is in %d of %d shards", what, n, len(shards))
		}
	}
	once("virtual servers", plan.Shard.HasVirtuals)
	once("VIPs", plan.Shard.HasVIPs)
	for _, set := range append(s.Sets, kernel.Set{Name: "A"}, kernel.Set{Name: "KUBE-NEW"}, kernel.Set{Name: "z"}) {
		once(set, func(p plan.Shard) bool { return p.HasEntries(set.Name) })
	}
	others := []kernel.Virtual{{}, {Key: kernel.VirtualAt(netip.MustParseAddrPort("1.1.1.1:1"), kernel.UDP)}, {Key: kernel.VirtualAt(netip.MustParseAddrPort("[ff::1]:1"), kernel.TCP)}}
	for _, v := range append(others, s.Virtuals...) {
		once(v, func(p plan.Shard) bool { return p.HasReals(v.Key) })
	}
}
