package web

import (
	"slices"
	"testing"
)

func TestNatural(t *testing.T) {
	want := []string{"default/a", "default/web", "default/web-2", "default/web1", "default/web02", "default/web2", "default/web2b", "default/web10", "default/web10-1", "other/a"}
	for range 5 {
		got := slices.Clone(want)
		slices.Reverse(got)
		slices.SortFunc(got, natural)
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	for _, a := range want {
		for _, b := range want {
			if natural(a, b) != -natural(b, a) || (natural(a, b) == 0) != (a == b) {
				t.Errorf("%s and %s: %d, %d", a, b, natural(a, b), natural(b, a))
			}
		}
	}
}
