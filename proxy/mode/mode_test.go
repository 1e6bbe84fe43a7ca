package mode

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

type stub string

func (s stub) Name() string                                     { return string(s) }
func (stub) Needs() []kernel.Adapter                            { return nil }
func (stub) Doubts(*frontend.Frontends, Config) []string        { return nil }
func (stub) WhyNot(*frontend.Front) string                      { return "" }
func (stub) Trial(kernel.Names) []kernel.Chain                  { return nil }
func (stub) Extras(kernel.Names) []Extra                        { return nil }
func (stub) Periods(Config) (_ Periods)                         { return }
func (stub) Sysctls() []string                                  { return nil }
func (stub) State(*frontend.Frontends, Config) (_ kernel.State) { return }

func TestChoose(t *testing.T) {
	for name, want := range map[string][]Mode{"": {stub("ipvs"), stub("other")}, "ipvs": {stub("ipvs")}, "other": {stub("other")}} {
		if m, err := Choose(name, stub("ipvs"), stub("other")); err != nil || !slices.Equal(m, want) {
			t.Errorf("mode %q: got %v, %v", name, m, err)
		}
	}
	_, err := Choose("iptables", stub("ipvs"))
	var missing *kernel.MissingError
	if !errors.As(err, &missing) || missing.What != "mode iptables is not in this version" || missing.Hint != `set mode = "ipvs", or leave it out` {
		t.Errorf("a mode of another version: %#v", err)
	}
}

// host.Options.Sysctls has to name everything that a state may contain.
func TestSysctlNames(t *testing.T) {
	c := Config{StrictARP: true, Conntrack: Conntrack{
		Max: 1, Buckets: 1, TCPEstablished: 1e9, TCPCloseWait: 1e9, UDP: 1e9, UDPStream: 1e9, TCPBeLiberal: true,
	}}
	var names []string
	f := &frontend.Frontends{Fronts: []frontend.Front{{Key: kernel.VirtualAt(netip.MustParseAddrPort("[fd00::1]:80"), kernel.TCP)}}}
	for _, s := range Sysctls(f, c) {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, SysctlNames) {
		t.Errorf("a state may contain\n%v\nSysctlNames has\n%v", names, SysctlNames)
	}
}
