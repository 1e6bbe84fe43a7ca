package sources_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]sources.Rate{
		"50/s": {N: 50, Per: time.Second}, "300/m": {N: 300, Per: time.Minute}, "1000000/h": {N: 1_000_000, Per: time.Hour},
		"": {}, "50": {}, "0/s": {}, "-1/s": {}, "+1/s": {}, "1000001/s": {}, "50/second": {}, "5 /s": {}, "5/s ": {}, "1e2/s": {},
	} {
		got, err := sources.ParseRate(text)
		if got != want || (err != nil) != (want == sources.Rate{}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q is written %q", text, got)
		}
	}
}

func TestBurst(t *testing.T) {
	for text, want := range map[string]uint32{
		"50/s": 50, "1/s": 1, "5/s": 5, "6000/m": 100, "60/m": 5, "3/m": 3, "10/h": 5, "1000000/s": 1_000_000, "1000000/h": 277,
	} {
		if r, _ := sources.ParseRate(text); r.Burst() != want {
			t.Errorf("%s: %d, want %d", text, r.Burst(), want)
		}
	}
	if (sources.Rate{}).Burst() != 0 {
		t.Error("no rate has a burst")
	}
}

// What PrefixesOf leaves covers the same addresses, and Covering finds each of them.
func TestPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.Custom(func(t *rapid.T) netip.Addr {
			low := byte(rapid.IntRange(0, 255).Draw(t, "low"))
			if rapid.Bool().Draw(t, "IPv6") {
				return netip.AddrFrom16([16]byte{0x20, 1, 15: low})
			}
			return netip.AddrFrom4([4]byte{10, 0, 0, low})
		})
		given := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
			a := address.Draw(t, "address")
			return netip.PrefixFrom(a, rapid.IntRange(a.BitLen()-9, a.BitLen()).Draw(t, "bits"))
		}), 0, 20).Draw(t, "prefixes")
		kept := sources.PrefixesOf(slices.Clone(given))
		for i, p := range kept {
			if p != p.Masked() || i > 0 && (kept[i-1].Compare(p) >= 0 || kept[i-1].Overlaps(p)) {
				t.Fatalf("%v", kept)
			}
		}
		for range 20 {
			a := address.Draw(t, "client")
			want := slices.ContainsFunc(given, func(p netip.Prefix) bool { return p.Contains(a) })
			if by, got := sources.Covering(kept, a); got != want || got && !by.Contains(a) {
				t.Fatalf("%s in %v: %s, %t", a, kept, by, got)
			}
		}
	})
}

func TestAdmits(t *testing.T) {
	of := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	lists := sources.Lists{{Name: "bad", Prefixes: of("10.9.0.0/16")}, {Name: "office", Prefixes: of("192.0.2.0/24")}}
	for _, test := range []struct {
		clients sources.Clients
		from    string
		ok      bool
		by      string
	}{
		{sources.Clients{}, "10.1.1.1", true, ""},
		{sources.Clients{Allow: of("10.0.0.0/8")}, "10.1.1.1", true, ""},
		{sources.Clients{Allow: of("10.0.0.0/8")}, "2001:db8::1", false, ""},
		{sources.Clients{Allow: of("10.0.0.0/8"), Deny: of("10.1.0.0/16")}, "10.1.1.1", false, "10.1.0.0/16"},
		{sources.Clients{Allow: of("10.0.0.0/8"), DenyLists: []string{"bad"}}, "10.9.1.1", false, "@bad"},
		{sources.Clients{AllowLists: []string{"office"}}, "192.0.2.7", true, ""},
		{sources.Clients{AllowLists: []string{"missing"}}, "192.0.2.7", false, ""},
		{sources.Clients{DenyLists: []string{"missing"}}, "192.0.2.7", true, ""},
	} {
		if ok, by := test.clients.Admits(netip.MustParseAddr(test.from), lists); ok != test.ok || by != test.by {
			t.Errorf("%+v, from %s: %t, %q", test.clients, test.from, ok, by)
		}
	}
}

// Lists of one source are those of the merged table, and a change of one is a change, although no service has any.
func TestListsAreMerged(t *testing.T) {
	static, _ := sources.Merge(sources.HostFacts{}, of("static", "a", 1))
	list := &sources.List{Name: "bad"}
	files := of("files", "b", 2)
	files.Lists = sources.Lists{list}
	var m sources.Merger
	merged := m.Merge(sources.HostFacts{}, nil, static, files)
	if !merged.Delta.Lists || merged.Lists.Named("bad") != list {
		t.Fatalf("%+v", merged)
	}
	if again := m.Merge(sources.HostFacts{}, nil, static, files); !again.Delta.Empty() {
		t.Errorf("again: %+v", again.Delta)
	}
	files.Lists = sources.Lists{{Name: "bad"}}
	next := m.Merge(sources.HostFacts{}, nil, static, files)
	if !next.Delta.Lists || len(next.Delta.Changes) > 0 || next.Lists.Named("bad") == list {
		t.Errorf("changed: %+v", next.Delta)
	}
	files.Services = of("files", "b", 3).Services
	if next := m.Merge(sources.HostFacts{}, nil, static, files); next.Delta.Lists || len(next.Delta.Changes) != 1 ||
		next.Lists.Named("bad") == nil {
		t.Errorf("a service changed: %+v", next.Delta)
	}
	files.Lists = nil
	if next := m.Merge(sources.HostFacts{}, nil, static, files); !next.Delta.Lists || next.Lists != nil {
		t.Errorf("gone: %+v", next.Delta)
	}
}

// Every field of Clients is compared: Compare finds a service in which one differs.
func TestClientsAreCompared(t *testing.T) {
	before := of("files", "a", 1)
	before.Services.At(0).Clients = &sources.Clients{}
	for i := range reflect.TypeFor[sources.Clients]().NumField() {
		now := of("files", "a", 1)
		now.Services.At(0).Clients = &sources.Clients{}
		switch f := reflect.ValueOf(now.Services.At(0).Clients).Elem().Field(i); f.Kind() {
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Struct:
			f.Field(0).SetUint(1)
		default:
			f.SetUint(1)
		}
		if len(sources.Compare(before, now).Changes) != 1 {
			t.Errorf("%s is not compared", reflect.TypeFor[sources.Clients]().Field(i).Name)
		}
	}
}

// of returns a table with one service at addr(i).
func of(source, name string, i int) sources.Table {
	return sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: "default", Name: name, Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(i)},
		Ports:  []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
		Origin: sources.Origin{Source: source, File: source, Line: 1},
	})}
}
