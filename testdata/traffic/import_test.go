package traffic

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// TestImportTakesOver: svcproxy takes over what ipvsadm made. import writes the services file, the start writes
// nothing to IPVS, and no connection ends.
func TestImportTakesOver(t *testing.T) {
	n := newNode(t, "")
	const vip = "10.96.0.20"
	n.feed(t, `-A -t 10.96.0.20:80 -s wrr
-a -t 10.96.0.20:80 -r 10.2.1.10:7000 -m -w 3
-a -t 10.96.0.20:80 -r 10.2.2.10:7000 -m -w 1
-A -t 10.96.0.20:81 -s wrr -p 360
-a -t 10.96.0.20:81 -r 10.2.1.10:7000 -m -w 1
-A -t 10.96.0.20:82 -s sh
-a -t 10.96.0.20:82 -r 10.2.2.10:7000 -m -w 1
-A -t 10.96.0.20:83 -s mh -b mh-port
-a -t 10.96.0.20:83 -r 10.2.2.10:7000 -m -w 1
-A -f 9 -s rr
-a -f 9 -r 10.2.1.10:0 -m -w 1
`, "ipvsadm", "-R")
	for _, args := range [][]string{
		{"link", "add", "vips", "type", "dummy"}, {"address", "add", vip + "/32", "dev", "vips"}, {"link", "set", "vips", "up"},
	} {
		n.tool(t, "ip", args...)
	}
	n.tool(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")

	var held []*lab.Conn
	for i := range 20 {
		c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(vip+":80"))
		must(t, err)
		if _, err := c.Ask(); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		held = append(held, c)
	}
	before := n.tool(t, "ipvsadm", "-Sn")

	services, code, err := n.Command("import", "--live")
	must(t, err)
	if code != 0 || !strings.Contains(services, "fwmark = 9") {
		t.Errorf("import --live: exit code %d\n%s", code, services)
	}
	n.start(t, services[strings.Index(services, "# from"):])
	if after := n.tool(t, "ipvsadm", "-Sn"); after != before {
		t.Errorf("svcproxy changed\n%sto\n%s", before, after)
	}
	for i, c := range held {
		if _, err := c.Ask(); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	wantFrom(t, n.Client, vip+":80", "pod1 pod2")
	n.says(t, 0, "status", "svc-10-96-0-20")
}
