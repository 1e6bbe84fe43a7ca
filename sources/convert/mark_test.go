package convert

import "testing"

// A mark is a decimal number for ipvsadm and keepalived, also with zeros in front.
func TestFirewallMark(t *testing.T) {
	for text, want := range map[string]uint32{"7": 7, "010": 10, "0x10": 16, "0X1f": 31, "4294967295": 1<<32 - 1} {
		if got, err := firewallMark(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "00", "0x", "1_0", "0b1", "0o7", "-1", "+1", "4294967296", "web"} {
		if got, err := firewallMark(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
