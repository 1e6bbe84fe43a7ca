package nft

import (
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

var countedAt = kernel.VirtualKey{Addr: netip.MustParseAddr("127.0.0.5"), Proto: kernel.UDP, Port: 80}

// counting is an address whose slots lead to these endpoints.
func counting(endpoints ...string) kernel.State {
	names := kernel.DefaultNames
	s := kernel.State{
		Sets: []kernel.Set{{Name: "KUBE-FRONTENDS", Type: kernel.MapIPPort}, {Name: "KUBE-SLOTS", Type: kernel.MapIPPortSlot}},
		Chains: []kernel.Chain{
			{Table: "nat", Name: names.Balancer("2"), Rules: "-j DNAT --map KUBE-SLOTS dst,dst --random 2"},
			{Table: "nat", Name: names.Balancer("3"), Rules: "-j DNAT --map KUBE-SLOTS dst,dst --random 3"},
			{Table: "nat", Name: "KUBE-SERVICES", Rules: "-j VMAP --map KUBE-FRONTENDS dst,dst"},
			{Table: "nat", Name: "OUTPUT", Rules: "-j KUBE-SERVICES"},
		},
	}
	for i := range s.Sets {
		s.Sets[i].Family, s.Sets[i].MaxElem = kernel.IPv4, math.MaxUint32
	}
	for i := range s.Chains {
		s.Chains[i].Family = kernel.IPv4
	}
	e := kernel.Entry{Set: "KUBE-FRONTENDS", Addr: countedAt.Addr, Proto: countedAt.Proto, Port: countedAt.Port,
		Goto: names.Balancer([]string{2: "2", 3: "3"}[len(endpoints)])}
	all := []kernel.Entry{e}
	for i, to := range endpoints {
		a := netip.MustParseAddr(to)
		e.Set, e.Goto, e.Slot, e.Second, e.ToPort = "KUBE-SLOTS", "", uint16(i), netip.PrefixFrom(a, 32), 8080
		all = append(all, e)
	}
	s.Entries = kernel.EntriesOf(all)
	return s
}

func countedReal(addr string) kernel.RealKey {
	k := kernel.RealKey{Virtual: countedAt}
	if addr != "" {
		k.Addr = netip.AddrPortFrom(netip.MustParseAddr(addr), 8080)
	}
	return k
}

// TestCounts: every new connection counts once, whatever becomes of the slots.
func TestCounts(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	counts, err := table.Counts(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer counts.Close()
	read := func(want uint64) map[string]uint64 {
		t.Helper()
		all, err := counts.Read()
		if err != nil || all == nil {
			t.Fatal(all, err)
		}
		n, of := uint64(0), map[string]uint64{}
		for _, r := range all {
			n += r.Conns
			if r.Key.Addr.IsValid() {
				of[r.Key.Addr.Addr().String()] = r.Conns
			} else {
				of["gone"] = r.Conns
			}
		}
		if n != want {
			t.Fatalf("%d connections, want %d: %v", n, want, of)
		}
		return of
	}
	const each = 60
	n := uint64(0)
	connect := func() {
		for i := range each { // a port that is used again is no new connection
			from := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 20000 + int(n) + i}
			c, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(countedAt.AddrPort()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		n += each
	}
	apply(t, table, counting("127.0.0.2", "127.0.0.3", "127.0.0.4"))
	connect()
	first := read(n)
	if first["127.0.0.2"] == 0 || first["127.0.0.3"] == 0 || first["127.0.0.4"] == 0 {
		t.Error(first)
	}
	// Its slot goes to the next endpoint, whose own slot is removed.
	apply(t, table, counting("127.0.0.2", "127.0.0.4"))
	second := read(n)
	if second["gone"] != first["127.0.0.3"] || second["127.0.0.2"] != first["127.0.0.2"] ||
		second["127.0.0.4"] != first["127.0.0.4"] {
		t.Errorf("%v, before %v", second, first)
	}
	connect()
	second = read(n)
	// An endpoint of two slots loses one.
	apply(t, table, counting("127.0.0.2", "127.0.0.4", "127.0.0.4"))
	connect()
	read(n)
	apply(t, table, counting("127.0.0.2", "127.0.0.4"))
	if third := read(n); third["gone"] != second["gone"] || third["127.0.0.4"] <= second["127.0.0.4"] {
		t.Errorf("%v, before %v", third, second)
	}
	// A write that changes nothing else keeps counters, and so does another process.
	other, err := Open(nil, kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if ops := ops(t, other, counting("127.0.0.2", "127.0.0.4")); len(ops) > 0 {
		t.Errorf("a new process plans %v", ops)
	}
	apply(t, table, kernel.State{})
	if all, err := counts.Read(); all != nil || err != nil {
		t.Errorf("%v, %v without the map", all, err)
	}
}

// TestUncounted: a map of an earlier version stays as it is, and its counts are not known.
func TestUncounted(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	s := counting("127.0.0.2", "127.0.0.4")
	for i := range s.Sets {
		s.Sets[i].Size = maxCounted + 1
	}
	for i, err := range table.Apply(ops(t, table, s)) {
		t.Fatal(i, err)
	}
	if list := kerneltest.Run(t, "nft", "list", "ruleset"); strings.Contains(list, "counter") {
		t.Error(list)
	}
	apply(t, table, counting("127.0.0.2", "127.0.0.4", "127.0.0.3"))
	counts, err := table.Counts(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer counts.Close()
	if all, err := counts.Read(); all != nil || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}

func TestSum(t *testing.T) {
	slot := func(addr string, n uint64) kernel.RealTraffic {
		return kernel.RealTraffic{Key: countedReal(addr), Traffic: kernel.Traffic{Conns: n}}
	}
	elsewhere := countedReal("10.0.0.1")
	elsewhere.Virtual.Port = 81 // has no slots
	all, left := sum([]kernel.RealTraffic{slot("10.0.0.2", 2), slot("10.0.0.1", 1), slot("10.0.0.2", 3)},
		map[kernel.RealKey]uint64{countedReal("10.0.0.1"): 10, countedReal("10.0.0.3"): 30, countedReal(""): 5, elsewhere: 7})
	if want := []kernel.RealTraffic{slot("", 35), slot("10.0.0.1", 11), slot("10.0.0.2", 5)}; !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	if want := map[kernel.RealKey]uint64{countedReal(""): 35, countedReal("10.0.0.1"): 10}; !maps.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}
