package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A vipService is served by a method, with a check.
type vipService struct {
	name, method, vip4, vip6 string
	port                     uint16
	check                    string
}

func (s vipService) text() string {
	return fmt.Sprintf("[services.%s]\ntype = \"LoadBalancer\"\nforward = %q\nloadBalancerIPs = [%q, %q]\nports = [{ port = %d }]\nendpoints = %s\nhealthCheck = { %s, "+
		"timeout = \"5s\", fall = 1, rise = 1 }\n", s.name, s.method, s.vip4, s.vip6, s.port, allPods, s.check)
}

func (s vipService) reals(pod int) []lab.Real {
	var list []lab.Real
	for vip, addr := range map[string]string{s.vip4: fmt.Sprintf("10.2.%d.10", pod), s.vip6: fmt.Sprintf("fd00:2:%d::10", pod)} {
		list = append(list, lab.Real{
			Network: "tcp", Virtual: netip.AddrPortFrom(netip.MustParseAddr(vip), s.port), Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), s.port),
		})
	}
	return list
}

// A server that answers at its own address and lacks the VIP is down by via = "vip", and up without it. By each method the
// probes take the way of the service's packets, in both families. A server without the VIP is silent, and a time-out that a
// starved machine notices late counts as void: hence the long limits.
func TestChecksViaTheVIP(t *testing.T) {
	n := newForwardingNode(t, "ipvs.guePort = 6081\nhealth.massFailure = \"believe\"\n")
	const limit = 3 * time.Minute
	var vips []netip.Addr
	var asked []vipService
	plain := vipService{"plain", "direct", "198.51.100.90", "2001:db8:80::90", 7000, `type = "tcp"`}
	text := plain.text()
	for i, method := range []string{"direct", "ipip", "gue"} {
		vip4, vip6 := fmt.Sprintf("198.51.100.%d", 91+i), fmt.Sprintf("2001:db8:80::%d", 91+i)
		vips = append(vips, netip.MustParseAddr(vip4), netip.MustParseAddr(vip6))
		asked = append(asked, vipService{method, method, vip4, vip6, 7000, `type = "tcp", via = "vip"`})
	}
	asked = append(asked, vipService{"http", "direct", asked[0].vip4, asked[0].vip6, 8080, `type = "http", via = "vip"`})
	for _, s := range asked {
		text += s.text()
	}
	for _, b := range n.Backends {
		must(t, b.Own(vips...))
	}
	n.start(t, text)
	n.allUp(t, 6*5)
	for _, vip := range vips {
		must(t, n.Backends[0].IP(fmt.Sprintf("addr del %s/%d dev lo", vip, vip.BitLen())))
	}
	for _, s := range asked {
		n.becomes(t, limit, false, s.reals(1)...)
		n.becomes(t, limit, true, s.reals(2)...)
		if s.port != 7000 {
			continue
		}
		if out, _, err := n.Command("health", s.name); err != nil || !strings.Contains(out, "timeout: VIP "+s.vip4) {
			t.Errorf("%s: health says, %v:\n%s", s.name, err, out)
		}
		if out, code, err := n.Command("health", "probe", s.name+"/10.2.2.10"); err != nil || code != 0 || !strings.Contains(out, "VIP answered") {
			t.Errorf("%s: a probe of pod2: exit code %d, %v:\n%s", s.name, code, err, out)
		}
	}
	n.becomes(t, limit, true, plain.reals(1)...)
	must(t, n.Backends[0].Own(vips...))
	n.allUp(t, 6*5)
}
