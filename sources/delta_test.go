package sources

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// Compare finds a difference in every field: one that it omitted would be a change that is not programmed.
func TestEveryFieldCounts(t *testing.T) {
	notChanges := []string{"Namespace", "Name", "Origin"}
	compare := func(a, b Service) Change {
		if d := Compare(Table{Services: ServicesOf(a)}, Table{Services: ServicesOf(b)}); len(d.Changes) > 0 {
			return d.Changes[0]
		}
		return Change{}
	}
	typ := reflect.TypeFor[Service]()
	for i := range typ.NumField() {
		a, b := full(), full()
		switch name := typ.Field(i).Name; {
		case name == "Endpoints" || name == "Namespace" || name == "Name":
		default:
			fill(reflect.ValueOf(&b).Elem().Field(i))
			if got, want := compare(a, b).Service, !slices.Contains(notChanges, name); got != want {
				t.Errorf("%s: differs is %v, want %v", name, got, want)
			}
		}
	}
	typ = reflect.TypeFor[Endpoint]()
	for i := range typ.NumField() {
		a, b := full(), full()
		fill(reflect.ValueOf(&b.Endpoints[0]).Elem().Field(i))
		if c := compare(a, b); !c.Endpoints || c.Service {
			t.Errorf("an endpoint's %s: %+v", typ.Field(i).Name, c)
		}
	}
	typ = reflect.TypeFor[Hints]()
	for i := range typ.NumField() {
		a, b := full(), full()
		a.Endpoints[0].Hints, b.Endpoints[0].Hints = new(Hints), new(Hints)
		fill(reflect.ValueOf(b.Endpoints[0].Hints).Elem().Field(i))
		if c := compare(a, b); !c.Endpoints {
			t.Errorf("an endpoint's hints, %s: %+v", typ.Field(i).Name, c)
		}
	}
	for _, origin := range []Origin{{Source: "file"}, {File: "a.toml"}, {Line: 1}} {
		a, b := full(), full()
		b.Origin = origin
		d := Compare(Table{Services: ServicesOf(a)}, Table{Services: ServicesOf(b)})
		if d.Empty() || d.Moved == d.Shifted || d.Shifted != (origin.Line > 0) {
			t.Errorf("origin %+v: %+v", origin, d)
		}
	}
	if c := compare(full(), full()); c != (Change{}) {
		t.Error("two equal services in different memory are not the same")
	}
}

// The doubts of a table are found again if any fact changes.
func TestEveryFactCounts(t *testing.T) {
	typ := reflect.TypeFor[HostFacts]()
	for i := range typ.NumField() {
		var a, b HostFacts
		fill(reflect.ValueOf(&b).Elem().Field(i))
		if a.equal(&b) || b.equal(&a) {
			t.Errorf("%s is not compared", typ.Field(i).Name)
		}
	}
	if known := (HostFacts{Schedulers: []string{}}); known.equal(&HostFacts{}) {
		t.Error("no schedulers are taken for unknown ones")
	}
	if a, b := (HostFacts{Schedulers: []string{"rr"}}), (HostFacts{Schedulers: []string{"rr"}}); !a.equal(&b) {
		t.Error("equal facts are taken for others")
	}
}

func full() Service {
	return Service{Endpoints: []Endpoint{{Addr: netip.MustParseAddr("10.2.0.1")}}}
}

// fill changes the value of a field.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.MustParseAddr("10.2.0.9")))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.MustParsePrefix("10.0.0.0/8")))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		fill(v.Field(0))
	case reflect.Slice:
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.Set(reflect.Append(v, one))
	default:
		panic("no other value for " + v.Type().String())
	}
}

func TestCompare(t *testing.T) {
	service := func(name string, endpoints ...string) Service {
		s := Service{Namespace: "default", Name: name}
		for _, e := range endpoints {
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.MustParseAddr(e)})
		}
		return s
	}
	table := func(services ...Service) Table { return Table{Services: ServicesOf(services...)} }
	typed := service("g", "10.2.0.1")
	typed.Type = NodePort
	before := table(service("a", "10.2.0.1"), service("b"), service("d", "10.2.0.2"), service("f"), service("g", "10.2.0.1"))
	now := table(service("a", "10.2.0.1"), service("c", "10.2.0.1"), service("d", "10.2.0.3"), service("e"), service("f"), typed)
	want := []Change{
		{"default", "b", "", 1, -1, true, false}, {"default", "c", "", -1, 1, true, true}, {"default", "d", "", 2, 2, false, true},
		{"default", "e", "", -1, 3, true, false}, {"default", "g", "", 4, 5, true, false},
	}
	d := Compare(before, now)
	if !slices.Equal(d.Changes, want) {
		t.Errorf("changes %v, want %v", d.Changes, want)
	}
	if added, changed, removed := d.Counts(); added != 2 || changed != 2 || removed != 1 {
		t.Errorf("%d added, %d changed, %d removed", added, changed, removed)
	}
	if got := Compare(now, now).Changes; got != nil {
		t.Errorf("changes %v, want none", got)
	}
	if got := Compare(Table{}, table(*before.Services.At(0))).Changes; !slices.Equal(got, []Change{{"default", "a", "", -1, 0, true, true}}) {
		t.Errorf("changes %v, want the first", got)
	}
}

// TestHealthCheckCounts: two health checks are compared by what they say, not by where they are.
func TestHealthCheckCounts(t *testing.T) {
	with := func(c *HealthCheck) Table {
		s := full()
		s.HealthCheck = c
		return Table{Services: ServicesOf(s)}
	}
	tcp := HealthCheck{Probe: Probe{Type: CheckTCP}, Fall: 3}
	same, other := tcp, tcp
	other.Fall = 2
	for _, c := range []struct {
		a, b    *HealthCheck
		differs bool
	}{{nil, nil, false}, {nil, &tcp, true}, {&tcp, nil, true}, {&tcp, &tcp, false}, {&tcp, &same, false}, {&tcp, &other, true}} {
		if got := len(Compare(with(c.a), with(c.b)).Changes) > 0; got != c.differs {
			t.Errorf("%v and %v: differs is %v", c.a, c.b, got)
		}
	}
}
