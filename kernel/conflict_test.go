package kernel_test

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// The command of a conflict removes the virtual server in conflict: marks of the two families are apart.
func TestConflictNamesItsCommand(t *testing.T) {
	for f, want := range map[kernel.Family]string{kernel.IPv4: "ipvsadm -D -f 7", kernel.IPv6: "ipvsadm -D -f 7 -6"} {
		v := kernel.Virtual{Key: kernel.MarkKey(f, 7), Scheduler: "rr", Netmask: uint8(f.Bits())}
		if text := (kernel.Conflict{Want: v, Have: v}).String(); !strings.HasSuffix(text, " "+want) {
			t.Errorf("%v: %s", f, text)
		}
	}
}
