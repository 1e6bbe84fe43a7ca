package ipvs

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// The text has the form of ip_vs_conn_seq_show.
const connections = `Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
TCP C0000209 9C40 0A600014 0050 0A02010A 1B58 ESTABLISHED     897
UDP C0000209 9C40 0A600014 0050 0A02020A 1B58 UDP             297
TCP C0000209 0000 0A600014 0050 0A02020A 1B58 NONE             40
TCP C0000200 0000 0A600015 0050 0A02010A 1B58 NONE             30
TCP 2001:0db8:0000:0000:0000:0000:0000:0009 9C40 fd00:0096:0000:0000:0000:0000:0000:0014 0050 fd00:0002:0001:0000:0000:0000:0000:000a 1B58 FIN_WAIT         12
`

func TestFindConnection(t *testing.T) {
	at := netip.MustParseAddrPort
	for _, c := range []struct {
		proto      kernel.Proto
		netmask    uint8
		to, client string
		want       kernel.Connection
	}{
		{kernel.TCP, 32, "10.96.0.20:80", "192.0.2.9:40000", kernel.Connection{
			Real: at("10.2.1.10:7000"), State: "ESTABLISHED", Expires: 897, Kept: at("10.2.2.10:7000"), KeptFor: 40,
		}},
		{kernel.UDP, 32, "10.96.0.20:80", "192.0.2.9:40000", kernel.Connection{Real: at("10.2.2.10:7000"), State: "UDP", Expires: 297}},
		{kernel.TCP, 128, "[fd00:96::14]:80", "[2001:db8::9]:40000", kernel.Connection{Real: at("[fd00:2:1::a]:7000"), State: "FIN_WAIT", Expires: 12}},
		{kernel.TCP, 32, "10.96.0.20:81", "192.0.2.9:40000", kernel.Connection{}},
		{kernel.TCP, 24, "10.96.0.21:80", "192.0.2.9:40000", kernel.Connection{Kept: at("10.2.1.10:7000"), KeptFor: 30}},
		{kernel.TCP, 32, "10.96.0.21:80", "192.0.2.9:40000", kernel.Connection{}},
	} {
		got, err := findConnection(strings.NewReader(connections), kernel.Virtual{Key: kernel.VirtualAt(at(c.to), c.proto), Netmask: c.netmask}, at(c.client))
		if err != nil || got != c.want {
			t.Errorf("%s %s: %+v, %v; want %+v", c.to, c.client, got, err, c.want)
		}
	}
	for _, bad := range []string{"TCP C00002 9C40 0A600014 0050 0A02010A 1B58 NONE 1", "TCP C0000209 9C40 0A600014 0050 0A02010A 1B58 NONE x"} {
		if _, err := findConnection(strings.NewReader(bad), kernel.Virtual{Key: kernel.VirtualAt(at("10.96.0.20:80"), kernel.TCP), Netmask: 32}, at("192.0.2.9:40000")); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
