package config

import "testing"

func TestPorts(t *testing.T) {
	for text, want := range map[string][2]uint16{
		"": {}, "0": {}, "0-0": {}, "0-100": {}, "10000": {10000, 10000}, "10000-10100": {10000, 10100}, " 1 - 65535 ": {1, 65535},
		"10000+100": {10000, 10100}, "65535+0": {65535, 65535},
	} {
		if first, last, err := parsePorts(text); first != want[0] || last != want[1] || err != nil {
			t.Errorf("%q: %d, %d, %v, want %v", text, first, last, err, want)
		}
	}
	for _, bad := range []string{"x", "-", "10-", "10-5", "65536", "65000+1000", "1+2-3", "1-2-3", "-1", "1.5"} {
		if first, last, err := parsePorts(bad); err == nil {
			t.Errorf("%q: %d, %d", bad, first, last)
		}
	}
}
