package kernel

import (
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// A map's entry reads back from its text, and its value does not decide its place.
func TestMapEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Entry{
			Set: "KUBE-SLOTS", Proto: rapid.SampledFrom([]Proto{TCP, UDP, SCTP}).Draw(t, "proto"),
			Port: rapid.Uint16().Draw(t, "port"), Addr: drawAddr(t),
		}
		if rapid.Bool().Draw(t, "verdict") {
			e.Goto = DefaultNames.Balancer(rapid.StringMatching("[A-Z]{1,3}-[0-9]{1,3}").Draw(t, "chain"))
		} else {
			to := rapid.SampledFrom([]string{"10.2.0.1", "fd00::1", "::ffff:10.2.0.1"}).Draw(t, "to")
			e.Slot, e.ToPort = rapid.Uint16().Draw(t, "slot"), rapid.Uint16Min(1).Draw(t, "to port")
			e.Second = netip.PrefixFrom(netip.MustParseAddr(to), netip.MustParseAddr(to).BitLen())
		}
		o, err := ParseObserved(e.String() + "\n")
		if err != nil || o.Entries.Len() != 1 || o.Entries.Slice()[0] != e {
			t.Fatalf("%s reads as %v: %v", e, o.Entries.Slice(), err)
		}
		other := e
		if other.Goto != "" {
			other.Goto += "9"
		} else {
			other.Second, other.ToPort = netip.MustParsePrefix("10.9.0.9/32"), 9
		}
		if e.Compare(other) != 0 || !o.Entries.Has(other) {
			t.Fatalf("%s and %s have one key", e, other)
		}
		o.Entries = o.Entries.With(nil, []Entry{other})
		if all := o.Entries.Slice(); len(all) != 1 || all[0] != other {
			t.Fatalf("%v, want %v in place of %v", all, other, e)
		}
		if e.Slot++; e.Goto == "" && e.Slot != 0 && e.Compare(other) <= 0 {
			t.Fatal("slots are in order")
		}
	})
	if n := unsafe.Sizeof(Entry{}); n > 96 {
		t.Errorf("an entry takes %d bytes, and there are many", n)
	}
}

// smallEntries draws some of few entries of two sets, a map and one of source ranges.
func smallEntries(t *rapid.T, label string) []Entry {
	all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Entry {
		n := byte(rapid.IntRange(0, 9).Draw(t, "address"))
		e := Entry{Set: "KUBE-SLOTS", Addr: netip.AddrFrom4([4]byte{10, 96, 0, n}), Proto: TCP, Port: 80}
		if rapid.Bool().Draw(t, "range") {
			e.Set, e.Second = "KUBE-RANGES", netip.PrefixFrom(netip.AddrFrom4([4]byte{10}), rapid.IntRange(8, 12).Draw(t, "bits"))
			return e
		}
		e.Slot, e.ToPort = uint16(rapid.IntRange(0, 5).Draw(t, "slot")), uint16(rapid.IntRange(1, 2).Draw(t, "to"))
		e.Second = netip.MustParsePrefix("10.2.0.1/32")
		return e
	}), 0, 60).Draw(t, label)
	sortUnique(&all, Entry.Compare)
	return all
}

// Lists of entries are what slices of them are, whatever runs they have and share.
func TestEntries(t *testing.T) {
	defer func(n int) { runLength = n }(runLength)
	runLength = 3
	rapid.Check(t, func(t *rapid.T) {
		plain := smallEntries(t, "first")
		list := EntriesOf(slices.Clone(plain))
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			before, was := list, slices.Clone(plain)
			gone, fresh := smallEntries(t, "gone"), smallEntries(t, "fresh")
			list = list.With(gone, fresh)
			plain = slices.DeleteFunc(plain, func(e Entry) bool {
				same := func(o Entry) bool { return o.Compare(e) == 0 }
				return slices.ContainsFunc(gone, same) || slices.ContainsFunc(fresh, same)
			})
			plain = append(plain, fresh...)
			slices.SortFunc(plain, Entry.Compare)
			sameEntries(t, before, was)
			sameEntries(t, list, plain)
			var own, other []Entry
			before.Unshared(list, func(a, b []Entry) { own, other = append(own, a...), append(other, b...) })
			if !EntriesOf(was).With(own, other).Equal(list) {
				t.Fatalf("%v and %v are not all in which %v and %v differ", own, other, was, plain)
			}
			if shared := len(was) - len(own); shared != len(plain)-len(other) {
				t.Fatalf("%d entries are shared of one list, %d of the other", shared, len(plain)-len(other))
			}
		}
	})
}

// sameEntries fails unless a list has these entries, by every way to ask.
func sameEntries(t *rapid.T, list Entries, plain []Entry) {
	if got := list.Slice(); !slices.Equal(got, plain) || list.Len() != len(plain) || !list.ascending() || !list.Equal(EntriesOf(plain)) {
		t.Fatalf("got %d\n%v\nwant %d\n%v", list.Len(), got, len(plain), plain)
	}
	for _, e := range plain {
		at := slices.DeleteFunc(slices.Clone(plain), func(o Entry) bool { return o.Set != e.Set || o.Key() != e.Key() })
		of := slices.DeleteFunc(slices.Clone(plain), func(o Entry) bool { return o.Set != e.Set })
		if found, ok := list.Find(e); found != e || !ok || !slices.Equal(list.At(e), at) || !list.Of(e.Set).Equal(EntriesOf(of)) {
			t.Fatalf("%v: found %v, at its address %v, in its set %v", e, found, list.At(e), list.Of(e.Set).Slice())
		}
		if e.Port++; list.Has(e) || len(list.At(e)) > 0 {
			t.Fatalf("%v is found", e)
		}
	}
}

func drawAddr(t *rapid.T) netip.Addr {
	return rapid.SampledFrom([]netip.Addr{
		netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::"), netip.MustParseAddr("::1"),
	}).Draw(t, "address")
}

func TestMembersThatDoNotParse(t *testing.T) {
	for _, s := range []string{
		"10.96.0.1 : goto X", "10.96.0.1,tcp:80 : goto ", "10.96.0.1,tcp:80 : drop", "10.96.0.1,tcp:80 : 10.2.0.1:80",
		"10.96.0.1,tcp:80,slot:1 : goto X", "10.96.0.1,tcp:80,slot:x : 10.2.0.1:80", "10.96.0.1,tcp:80,slot:1 : 10.2.0.1:0",
		"tcp:80", "tcp:80 : goto A B", ":", " : ", "10.96.0.1,tcp:80,slot:1", "tcp:80 : goto A",
	} {
		if e, err := ParseMember(s); err == nil {
			t.Errorf("%q is read as %v", s, e)
		}
	}
}
