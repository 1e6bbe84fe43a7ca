package kernel

import (
	"net/netip"
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
