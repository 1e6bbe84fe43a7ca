package commands

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// Names are those that commands take: without the namespace default, and endpoints without their ports.
func TestNames(t *testing.T) {
	st := status.Status{Services: []status.Service{
		{Name: "web", Endpoints: []status.Endpoint{{Address: netip.MustParseAddrPort("10.2.1.10:8080")}, {Address: netip.MustParseAddrPort("10.2.1.10:8443")}}},
		{Name: "shop/web", Endpoints: []status.Endpoint{{Address: netip.MustParseAddrPort("[fd00::1]:80")}}},
	}}
	if got, want := names(st, false), []string{"shop/web", "web"}; !slices.Equal(got, want) {
		t.Errorf("services %q, want %q", got, want)
	}
	if got, want := names(st, true), []string{"10.2.1.10", "fd00::1", "shop/web/fd00::1", "web/10.2.1.10"}; !slices.Equal(got, want) {
		t.Errorf("targets %q, want %q", got, want)
	}
}

// compgen -W of bash expands its words, so a word of a daemon that is not to be trusted would run as root.
func TestNamesAreNotForAShellToEvaluate(t *testing.T) {
	st := status.Status{Services: []status.Service{{Name: "web"}, {Name: "$(reboot)"}, {Name: "shop/a b"}, {Name: "shop/`reboot`"}, {Name: "shop/\x1b[2J"}}}
	if got, want := names(st, false), []string{"web"}; !slices.Equal(got, want) {
		t.Errorf("services %q, want %q", got, want)
	}
}
