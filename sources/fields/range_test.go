package fields

import (
	"testing"
	"time"
)

func TestRanges(t *testing.T) {
	pause, part := DurationIn(10*time.Millisecond, time.Hour), FloatIn(0, 0.5)
	for _, c := range []struct {
		v    any
		read func(Node) (any, error)
		ok   bool
	}{
		{"10ms", asAny(pause), true}, {"60m", asAny(pause), true}, {"9ms", asAny(pause), false}, {"1h1ns", asAny(pause), false}, {int64(1), asAny(pause), false},
		{0.0, asAny(part), true}, {0.5, asAny(part), true}, {int64(0), asAny(part), true}, {0.51, asAny(part), false}, {-0.1, asAny(part), false}, {"0", asAny(part), false},
	} {
		if _, err := c.read(Node{V: c.v}); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.v, err)
		}
	}
}

func asAny[V any](of Type[V]) func(Node) (any, error) {
	return func(n Node) (any, error) { return of.Read(n) }
}

// TestAmount: an amount that is written is read back the same.
func TestAmount(t *testing.T) {
	for _, v := range []any{int64(0), int64(7), "0%", "50%", "100%"} {
		a, err := AmountOf.Read(Node{V: v})
		if got := AmountOf.Write(a); err != nil || got != v {
			t.Errorf("%v: got %v, %v", v, got, err)
		}
	}
	for _, v := range []any{int64(-1), int64(1) << 40, "50", "%", "101%", "-1%", "+5%", "05%", "5 %", 0.5, true} {
		if a, err := AmountOf.Read(Node{V: v}); err == nil {
			t.Errorf("%v: got %+v", v, a)
		}
	}
}
