package kernel

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// smallReal draws one of few real servers, so that lists have many in common.
func smallReal(t *rapid.T) Real {
	k := VirtualKey{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 9).Draw(t, "virtual"))}), Port: 80, Proto: TCP}
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(rapid.IntRange(0, 6).Draw(t, "endpoint"))}), 80)
	return Real{Key: RealKey{Virtual: k, Addr: to}, Weight: uint32(rapid.IntRange(0, 1).Draw(t, "weight"))}
}

func smallReals(t *rapid.T, label string) []Real {
	all := rapid.SliceOfN(rapid.Custom(smallReal), 0, 40).Draw(t, label)
	sortUnique(&all, Real.Compare)
	return all
}

// Lists of real servers are what slices of them are, whatever runs they have and share.
func TestReals(t *testing.T) {
	defer func(n int) { runLength = n }(runLength)
	runLength = 3
	rapid.Check(t, func(t *rapid.T) {
		plain := smallReals(t, "first")
		list := RealsOf(slices.Clone(plain))
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			before, was := list, slices.Clone(plain)
			gone, fresh := smallReals(t, "gone"), smallReals(t, "fresh")
			list = list.With(gone, fresh)
			plain = slices.DeleteFunc(plain, func(r Real) bool {
				same := func(o Real) bool { return o.Key == r.Key }
				return slices.ContainsFunc(gone, same) || slices.ContainsFunc(fresh, same)
			})
			plain = append(plain, fresh...)
			slices.SortFunc(plain, Real.Compare)
			sameReals(t, before, was)
			sameReals(t, list, plain)
			sameParts(t, before, list)
			sameParts(t, RealsOf(was), list)
		}
	})
}

// sameReals fails unless a list has these real servers, by every way to ask.
func sameReals(t *rapid.T, list Reals, plain []Real) {
	if got := list.Slice(); !slices.Equal(got, plain) || list.Len() != len(plain) || !list.ascending() || !list.Equal(RealsOf(plain)) {
		t.Fatalf("got %d\n%v\nwant %d\n%v", list.Len(), got, len(plain), plain)
	}
	cursor := list.Cursor()
	for i := range byte(11) {
		k := VirtualKey{Addr: netip.AddrFrom4([4]byte{10, 0, 0, i}), Port: 80, Proto: TCP}
		want := slices.DeleteFunc(slices.Clone(plain), func(r Real) bool { return r.Key.Virtual != k })
		if got := list.Of(k); !slices.Equal(got, want) {
			t.Fatalf("%s has %v, want %v", k, got, want)
		}
		if skip := i%3 == 0; skip {
			continue
		}
		if got := cursor.Next(k); !slices.Equal(got, want) {
			t.Fatalf("the next of %s are %v, want %v", k, got, want)
		}
	}
	for i, r := range list.All() {
		if at, found := list.Index(r.Key); at != i || !found || !list.Has(r.Key) || r != plain[i] {
			t.Fatalf("%v is at %d, found %v, want %d", r, at, found, i)
		}
	}
}

// sameParts fails unless Unshared gives all in which two lists differ.
func sameParts(t *rapid.T, a, b Reals) {
	one, other := a.Slice(), b.Slice()
	at := 0
	a.Unshared(b, func(own, part []Real, index int) {
		shared := index - at
		if !slices.Equal(one[:shared], other[at:index]) || !slices.Equal(one[shared:shared+len(own)], own) || !slices.Equal(other[index:index+len(part)], part) {
			t.Fatalf("at %d: %v and %v", index, own, part)
		}
		one, at = one[shared+len(own):], index+len(part)
		for _, r := range slices.Concat(own, part) {
			if len(one) > 0 && r.Key.Virtual.Compare(one[0].Key.Virtual) >= 0 || at < len(other) && r.Key.Virtual.Compare(other[at].Key.Virtual) >= 0 {
				t.Fatalf("%v and %v: others of that virtual server or before it follow", own, part)
			}
		}
	})
	if !slices.Equal(one, other[at:]) {
		t.Fatalf("left over: %v and %v", one, other[at:])
	}
}
