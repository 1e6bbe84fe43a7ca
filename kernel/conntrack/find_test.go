package conntrack

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

func TestFind(t *testing.T) {
	c := open(t, new(nl.Dialer))
	for i, f := range []string{"tcp 10.96.0.10:80 10.2.0.1:8080", "tcp 10.96.0.10:80 10.2.0.2:8080", "udp [fd00::10]:53 [fd00:2::1]:5353"} {
		insert(t, i, f)
	}
	for _, q := range []struct{ flow, client, from string }{
		{"tcp 10.96.0.10:80 10.2.0.2:8080", "192.0.2.9:1001", "10.2.0.2:8080"},
		{"udp [fd00::10]:53 [fd00:2::1]:5353", "[2001:db8::9]:1002", "[fd00:2::1]:5353"},
		{"tcp 10.96.0.10:80 10.2.0.2:8080", "192.0.2.9:1002", "invalid AddrPort"},
	} {
		client := netip.MustParseAddrPort(q.client)
		from, to, err := c.Find(flow(q.flow).Key.Virtual, client)
		if err != nil || from.String() != q.from || from.IsValid() && to != client {
			t.Errorf("%s of %s: from %s to %s, %v", q.flow, q.client, from, to, err)
		}
	}
}
