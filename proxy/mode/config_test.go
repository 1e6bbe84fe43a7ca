package mode

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// The comparisons by which a sync finds that nothing but the table changed see a
// change of every field: one that they omitted would not take effect until the next
// change of another.
func TestEveryFieldIsCompared(t *testing.T) {
	everyField(t, kernel.Node.Equal)
	everyField(t, func(a, b frontend.Config) bool { return a.Equal(&b) })
	everyField(t, func(a, b Config) bool { // Same leaves Frontends to Frontends.Since
		return a.Same(b) && a.Frontends.Equal(&b.Frontends)
	})
}

func everyField[T any](t *testing.T, equal func(a, b T) bool) {
	t.Helper()
	var a, b T
	if !equal(a, b) {
		t.Errorf("two zero values of %T differ", a)
	}
	fields(reflect.ValueOf(&b).Elem(), "", func(field reflect.Value, name string) {
		was := reflect.ValueOf(field.Interface())
		field.Set(other(field))
		if equal(a, b) || equal(b, a) {
			t.Errorf("%T%s is not compared", a, name)
		}
		field.Set(was)
	})
}

// fields calls f with each field of a struct, and of the structs in it.
func fields(v reflect.Value, name string, f func(field reflect.Value, name string)) {
	switch v.Interface().(type) {
	case netip.Addr, netip.Prefix:
		f(v, name)
		return
	}
	if v.Kind() != reflect.Struct {
		f(v, name)
		return
	}
	for i := range v.NumField() {
		fields(v.Field(i), name+"."+v.Type().Field(i).Name, f)
	}
}

// other returns a value that is not the zero of its type.
func other(v reflect.Value) reflect.Value {
	x := reflect.New(v.Type()).Elem()
	switch x.Interface().(type) {
	case netip.Addr:
		return reflect.ValueOf(netip.MustParseAddr("10.2.0.9"))
	case netip.Prefix:
		return reflect.ValueOf(netip.MustParsePrefix("10.0.0.0/8"))
	}
	switch {
	case x.Kind() == reflect.String:
		x.SetString("other")
	case x.Kind() == reflect.Bool:
		x.SetBool(true)
	case x.CanInt():
		x.SetInt(1)
	case x.CanUint():
		x.SetUint(1)
	case x.Kind() == reflect.Slice:
		return reflect.MakeSlice(x.Type(), 1, 1)
	default:
		panic("no other value of " + x.Type().String())
	}
	return x
}
