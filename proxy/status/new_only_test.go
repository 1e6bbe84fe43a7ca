package status

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// TestNewOnly: an address has the sum over its endpoints, with those that it no longer has, and bytes are absent.
func TestNewOnly(t *testing.T) {
	vip := kernel.VirtualKey{Addr: netip.MustParseAddr("10.96.0.20"), Proto: kernel.TCP, Port: 80}
	to := func(addr string, n uint64) kernel.RealTraffic {
		k := kernel.RealKey{Virtual: vip}
		if addr != "" {
			k.Addr = netip.MustParseAddrPort(addr)
		}
		return kernel.RealTraffic{Key: k, Traffic: kernel.Traffic{Conns: n}}
	}
	c := byRules(kernel.Counters{Chosen: []kernel.RealTraffic{to("", 4), to("10.2.1.10:80", 2), to("10.2.2.10:80", 1)},
		Virtuals: []kernel.VirtualCounters{{Key: kernel.VirtualKey{Port: 1}}}})
	if len(c.Virtuals) != 1 || trafficOf(c, vip).Connections != 7 {
		t.Errorf("%+v", c.Virtuals)
	}
	st := Status{Uncounted: true, NewOnly: true, Services: []Service{{Name: "web", Traffic: trafficOf(c, vip)}}}
	st.uncount()
	text, err := json.Marshal(st.Services[0])
	if err != nil || !strings.Contains(string(text), `"traffic":{"connections":7}`) {
		t.Errorf("%s, %v", text, err)
	}
	if st.began(st.Services[0].Traffic) != "7" || st.bytes(st.Services[0].Traffic.InBytes) != "-" {
		t.Error(st.began(st.Services[0].Traffic))
	}
}
