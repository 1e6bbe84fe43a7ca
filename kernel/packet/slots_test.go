package packet

import "testing"

// The values are those of lookup3.c (Bob Jenkins, driver5), of which Linux's jhash is a copy.
func TestJhash(t *testing.T) {
	for _, c := range []struct {
		key        string
		seed, want uint32
	}{
		{"", 0, 0xdeadbeef},
		{"", 0xdeadbeef, 0xbd5b7dde},
		{"Four score and seven years ago", 0, 0x17770551},
		{"Four score and seven years ago", 1, 0xcd628161},
	} {
		if got := jhash([]byte(c.key), c.seed); got != c.want {
			t.Errorf("%q: %#x, want %#x", c.key, got, c.want)
		}
	}
}
