package sources

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// TestEveryFieldOfAHealthCheckCounts: Compare finds a difference in every field of a check and of its probe.
func TestEveryFieldOfAHealthCheckCounts(t *testing.T) {
	differs := func(a, b HealthCheck) bool {
		x, y := full(), full()
		x.HealthCheck, y.HealthCheck = &a, &b
		d := Compare(Table{Services: ServicesOf(x)}, Table{Services: ServicesOf(y)})
		return len(d.Changes) == 1 && d.Changes[0].Service
	}
	if a, b := DefaultHealthCheck(), DefaultHealthCheck(); differs(a, b) {
		t.Error("two equal checks differ")
	}
	each := func(field func(*HealthCheck) reflect.Value) {
		for i := range field(&HealthCheck{}).NumField() {
			a, b := DefaultHealthCheck(), DefaultHealthCheck()
			v := field(&b).Field(i)
			if v.Kind() == reflect.Struct && v.Type() == reflect.TypeFor[Probe]() {
				continue
			}
			if fill(v); !differs(a, b) {
				t.Errorf("%s makes no difference", field(&b).Type().Field(i).Name)
			}
		}
	}
	each(func(c *HealthCheck) reflect.Value { return reflect.ValueOf(c).Elem() })
	each(func(c *HealthCheck) reflect.Value { return reflect.ValueOf(&c.Probe).Elem() })
}

// TestNodeDefaults: a node's default replaces each key that the service does not give, and no other.
func TestNodeDefaults(t *testing.T) {
	node := HealthCheck{
		Probe: Probe{Type: CheckHTTP, Timeout: 9 * time.Second}, Interval: 8 * time.Second, FastInterval: 7 * time.Second,
		DownInterval: 6 * time.Second, Jitter: 0.3, Fall: 5, Rise: 4, Initial: InitialDown, OnDown: DownCut, OnAllDown: AllDownClosed,
		MinHealthy: 50, MinHealthyPercent: true, SlowStart: time.Minute,
	}
	usual := DefaultHealthCheck()
	usual.Probe.Type = CheckTCP
	want := node
	want.Probe.Type, want.Initial, want.Unset = CheckTCP, InitialKernel, allHealthKeys // these have no default of the node
	if got := usual.OnNode(node); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for key := HealthKeys(1); key <= allHealthKeys; key <<= 1 {
		given := usual
		given.Unset &^= key
		back := want
		back.Unset = given.Unset
		for _, f := range healthDefaults {
			if f.key == key {
				f.copy(&back, &usual)
			}
		}
		if got := given.OnNode(node); got != back || got == want {
			t.Errorf("key %#x: got  %+v\nwant %+v", key, got, back)
		}
	}
	if got := want.OnNode(usual); got != usual {
		t.Errorf("the usual defaults are not back: %+v", got)
	}
	want.Unset = 0
	if got := want.OnNode(usual); got != want {
		t.Errorf("a complete check has changed: %+v", got)
	}
}

// TestChecksOfChanges: where only endpoints changed, OnNode takes over the checks that it made of the last table. That is
// the same as to make them again.
func TestChecksOfChanges(t *testing.T) {
	check := DefaultHealthCheck()
	check.Probe.Type, check.Unset = CheckTCP, allHealthKeys
	plain := Table{Services: ServicesOf(Service{Name: "a"}, Service{Name: "b"})}
	checked := Table{Services: ServicesOf(Service{Name: "a"}, Service{Name: "b", HealthCheck: &check}, Service{Name: "c", HealthCheck: &check})}
	usual, other := DefaultHealthCheck(), DefaultHealthCheck()
	other.Fall = 9
	var checks Checks
	for _, table := range []Table{plain, checked} {
		for round, defaults := range []HealthCheck{usual, usual, usual, other, other, usual} {
			next := Table{Services: ServicesOf(table.Services.Slice()...)}
			next.Services.At(1).Endpoints = []Endpoint{{Weight: uint32(round)}}
			next = next.After(table, Compare(table, next)).Uncontested()
			table = next
			before, kept := checks.out, checks.out.Services.Slice()
			got, want := checks.OnNode(table, defaults, "rr"), new(Checks).OnNode(table, defaults, "rr")
			if !reflect.DeepEqual(got.Services.Slice(), want.Services.Slice()) || !got.isUncontested() {
				t.Errorf("round %d: got %+v, want %+v", round, got, want)
			}
			if d := Compare(Table{Services: before.Services}, Table{Services: got.Services}); !reflect.DeepEqual(Compare(before, got), d) {
				t.Errorf("round %d: delta %+v, want %+v", round, Compare(before, got), d)
			}
			if !reflect.DeepEqual(before.Services.Slice(), kept) && len(kept) > 0 {
				t.Errorf("round %d: the last table changed", round)
			}
		}
	}
}

// TestChecksOnNode: new defaults are a change of each service that depends on them. Equal checks of any source share
// memory, and a table without checks stays as it is.
func TestChecksOnNode(t *testing.T) {
	check := func(unset HealthKeys) *HealthCheck {
		c := DefaultHealthCheck()
		c.Probe.Type, c.Unset = CheckTCP, unset
		return &c
	}
	table := Table{Services: ServicesOf(
		Service{Name: "a", HealthCheck: check(allHealthKeys)}, Service{Name: "b"}, Service{Name: "c", HealthCheck: check(allHealthKeys)},
		Service{Name: "d", HealthCheck: check(0)}, Service{Name: "e", Scheduler: "wrr", HealthCheck: check(allHealthKeys)},
	)}.Uncontested()
	var checks Checks
	usual, slow := DefaultHealthCheck(), DefaultHealthCheck()
	slow.SlowStart = time.Minute
	first := checks.OnNode(table, usual, "rr")
	again := checks.OnNode(table, usual, "rr")
	s := again.Services.Slice()
	if d := Compare(first, again); !d.Empty() || !again.isUncontested() || s[0].HealthCheck != s[2].HealthCheck || s[0].HealthCheck != first.Services.At(0).HealthCheck {
		t.Errorf("%+v, %p %p", d, s[0].HealthCheck, s[2].HealthCheck)
	}
	later := checks.OnNode(table, slow, "rr")
	if d := Compare(again, later); len(d.Changes) != 1 || d.Changes[0].Name != "e" || later.Services.At(4).HealthCheck.SlowStart != time.Minute {
		t.Errorf("rr ignores weights, wrr does not: %+v", d)
	}
	slow.Fall = 9
	if d := Compare(later, checks.OnNode(table, slow, "wrr")); len(d.Changes) != 3 { // all but b and d
		t.Errorf("%+v", d)
	}
	if got := table.Services.At(4).HealthCheck; *got != *check(allHealthKeys) {
		t.Errorf("the source's check has changed: %+v", got)
	}
	none := Table{Services: ServicesOf(Service{Name: "b"})}
	if got := checks.OnNode(none, usual, "rr"); !got.Services.Same(none.Services) {
		t.Error("a table without checks is copied")
	}
}

// The way to an endpoint follows from the service and the node. Load balancer IPs come before others.
func TestWay(t *testing.T) {
	check := &HealthCheck{Probe: Probe{Type: CheckTCP, Via: ViaVIP}}
	vips := func(s ...string) (list []netip.Addr) {
		for _, a := range s {
			list = append(list, netip.MustParseAddr(a))
		}
		return list
	}
	service := func(forward Forward, port uint16) Service {
		return Service{
			Namespace: "default", Name: "web", Type: LoadBalancer, Forward: forward, HealthCheck: check, ClusterIPs: vips("10.96.0.1", "fd00:96::1"),
			ExternalIPs: vips("203.0.113.1"), LoadBalancerIPs: []VIP{{Addr: vips("198.51.100.1")[0]}, {Addr: vips("198.51.100.2")[0]}},
			Ports: []Port{{Port: 80, TargetPort: port, Protocol: TCP}},
		}
	}
	for _, test := range []struct {
		service Service
		node    Way
		want    Way
	}{
		{service(GUE, 80), Way{Forward: Masquerade, GUEPort: 6080}, Way{VIP4: vips("198.51.100.1")[0], VIP6: vips("fd00:96::1")[0], Forward: GUE, GUEPort: 6080}},
		{service("", 80), Way{Forward: Direct, GUEPort: 6080}, Way{VIP4: vips("198.51.100.1")[0], VIP6: vips("fd00:96::1")[0], Forward: Direct}},
		{service("", 8080), Way{Forward: Direct}, Way{}},
		{service("", 80), Way{Forward: Masquerade}, Way{}},
		{service(Direct, 80), Way{}, Way{}}, // the node's mode masquerades everything
	} {
		defaults := DefaultHealthCheck()
		defaults.Probe.Way = test.node
		got := new(Checks).OnNode(Table{Services: ServicesOf(test.service)}, defaults, "rr").Services.At(0).HealthCheck.Probe.Way
		if got != test.want {
			t.Errorf("forward %q to port %d on a node with %q: %+v, want %+v", test.service.Forward, test.service.Ports[0].TargetPort, test.node.Forward, got, test.want)
		}
	}
}
