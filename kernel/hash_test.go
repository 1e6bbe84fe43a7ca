package kernel

import (
	"strings"
	"testing"
)

// The warning is only about a hash that no plan makes larger, and names the right size.
func TestSmallHash(t *testing.T) {
	have := func(buckets, limit string) []Sysctl {
		return []Sysctl{{Name: conntrackBuckets, Value: buckets}, {Name: conntrackMax, Value: limit}}
	}
	wanted := []Sysctl{{Name: conntrackBuckets, Value: "65536", AtLeast: true}}
	for _, test := range []struct {
		want, have []Sysctl
		says       string
	}{
		{nil, have("65536", "262144"), ""},
		{nil, have("65536", "65536"), ""},
		{nil, nil, ""},
		{wanted, have("16384", "262144"), ""},
		{nil, have("16384", "262144"), "hashsize=65536 "},
	} {
		if got := strings.Join(SmallHash(test.want, test.have), "\n"); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
			t.Errorf("%v and %v: %q, want %q", test.want, test.have, got, test.says)
		}
	}
}
