package sources_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// numbered are services with their indexes as names.
func numbered(n int) []sources.Service {
	all := make([]sources.Service, n)
	for i := range all {
		all[i].Name = fmt.Sprintf("s%05d", i)
	}
	return all
}

// A list has what the slice has that it was made of, and With changes only the new list.
func TestServices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := numbered(rapid.IntRange(0, 300).Draw(t, "services"))
		list := sources.ServicesOf(slices.Clone(want)...)
		before := slices.Clone(want)
		indexes := []int{}
		if len(want) > 0 {
			indexes = rapid.SliceOfNDistinct(rapid.IntRange(0, len(want)-1), 0, -1, rapid.ID[int]).Draw(t, "changed")
		}
		slices.Sort(indexes)
		other := func(i int) sources.Service { return sources.Service{Name: "other", FWMark: uint32(i)} }
		now := list.With(indexes, other)
		for _, i := range indexes {
			want[i] = other(i)
		}
		if !reflect.DeepEqual(now, sources.ServicesOf(want...)) || !reflect.DeepEqual(list, sources.ServicesOf(before...)) {
			t.Fatalf("%d of %d services changed: %v", len(indexes), len(want), now)
		}
		if now.Same(list) != (len(indexes) == 0) {
			t.Errorf("the same memory with %d changes: %v", len(indexes), now.Same(list))
		}
		if more := numbered(rapid.IntRange(0, 100).Draw(t, "more")); !reflect.DeepEqual(now.Append(more...), sources.ServicesOf(slices.Concat(want, more)...)) {
			t.Fatalf("%d services with %d more: %v", len(want), len(more), now.Append(more...))
		}
		if now.Len() != len(want) {
			t.Fatalf("%d services of %d", now.Len(), len(want))
		}
		for i, s := range now.All() {
			if s != now.At(i) || !reflect.DeepEqual(*s, want[i]) {
				t.Fatalf("service %d is %v", i, *s)
			}
		}
	})
}

// A change copies one page and the list of pages.
func TestServicesShare(t *testing.T) {
	list := sources.ServicesOf(numbered(1000)...)
	now := list.With([]int{500}, func(int) sources.Service { return sources.Service{} })
	copied := 0
	for i := range list.Len() {
		if list.At(i) != now.At(i) {
			copied++
		}
	}
	if copied != 64 {
		t.Errorf("%d services were copied", copied)
	}
}
