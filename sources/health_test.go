package sources

import (
	"reflect"
	"testing"
	"time"
)

// TestEveryFieldOfAHealthCheckCounts: Compare finds a difference in every field of a check and of its probe.
func TestEveryFieldOfAHealthCheckCounts(t *testing.T) {
	differs := func(a, b HealthCheck) bool {
		x, y := full(), full()
		x.HealthCheck, y.HealthCheck = &a, &b
		d := Compare(Table{Services: []Service{x}}, Table{Services: []Service{y}})
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
	want.Probe.Type, want.Initial = CheckTCP, InitialKernel // these two have no default of the node
	if got := usual.OnNode(node); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for key := HealthKeys(1); key <= allHealthKeys; key <<= 1 {
		given := usual
		given.Unset &^= key
		back := want
		for _, f := range healthDefaults {
			if f.key == key {
				f.copy(&back, &usual)
			}
		}
		if got := given.OnNode(node); got != back || got == want {
			t.Errorf("key %#x: got  %+v\nwant %+v", key, got, back)
		}
	}
	if got := want.OnNode(usual); got != want {
		t.Errorf("a complete check has changed: %+v", got)
	}
}
