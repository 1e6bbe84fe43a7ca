package events

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// TestEveryFieldCounts: one that same does not look at is a change that nobody
// is told of.
func TestEveryFieldCounts(t *testing.T) {
	notChanges := []string{"Namespace", "Name", "Origin"}
	typ := reflect.TypeFor[sources.Service]()
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		a, b := full(), full()
		fill(reflect.ValueOf(&b).Elem().Field(i))
		if got, want := same(&a, &b), slices.Contains(notChanges, name); got != want {
			t.Errorf("%s: same is %v, want %v", name, got, want)
		}
	}
	typ = reflect.TypeFor[sources.Endpoint]()
	for i := range typ.NumField() {
		a, b := full(), full()
		fill(reflect.ValueOf(&b.Endpoints[0]).Elem().Field(i))
		if same(&a, &b) {
			t.Errorf("an endpoint's %s makes no difference", typ.Field(i).Name)
		}
	}
	if a, b := full(), full(); !same(&a, &b) {
		t.Error("two equal services in different memory are not the same")
	}
}

func full() sources.Service {
	return sources.Service{Endpoints: []sources.Endpoint{{Addr: netip.MustParseAddr("10.2.0.1")}}}
}

// fill gives a field another value than it has.
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
	case reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(v.Uint() + 1)
	case reflect.Pointer:
		v.Set(reflect.ValueOf(new(time.Duration)))
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

func TestChanged(t *testing.T) {
	service := func(name string, endpoints ...string) sources.Service {
		s := sources.Service{Namespace: "default", Name: name}
		for _, e := range endpoints {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.MustParseAddr(e)})
		}
		return s
	}
	before := []sources.Service{service("a", "10.2.0.1"), service("b"), service("d", "10.2.0.2"), service("f")}
	now := []sources.Service{service("a", "10.2.0.1"), service("c"), service("d", "10.2.0.3"), service("e"), service("f")}
	want := []string{"default/b", "default/c", "default/d", "default/e"}
	if got := changed(before, now); !slices.Equal(got, want) {
		t.Errorf("changed %v, want %v", got, want)
	}
	if got := changed(now, now); got != nil {
		t.Errorf("changed %v, want none", got)
	}
	if got := changed(nil, before[:1]); !slices.Equal(got, []string{"default/a"}) {
		t.Errorf("changed %v, want the first", got)
	}
}
