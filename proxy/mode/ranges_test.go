package mode_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// A network that another one contains is left out, whatever their order, and so is the other family.
func TestRanges(t *testing.T) {
	var all []netip.Prefix
	for _, s := range []string{"192.0.2.7/32", "10.1.0.0/16", "10.0.0.0/8", "fd00::/8", "10.0.0.0/16", "10.0.0.0/8", "11.0.0.0/24"} {
		all = append(all, netip.MustParsePrefix(s))
	}
	const want = "[10.0.0.0/8 11.0.0.0/24 192.0.2.7/32] [fd00::/8]"
	if got := fmt.Sprint(mode.Ranges(all, kernel.IPv4), mode.Ranges(all, kernel.IPv6)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
