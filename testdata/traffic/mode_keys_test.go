package traffic

import (
	"strings"
	"testing"
)

// In mode iptables node ports can be served on loopback. That needs a kernel parameter, which is put back without the
// key. What other hosts may then send to loopback, rules/localhost-node-ports says.
func TestLocalhostNodePorts(t *testing.T) {
	n := newNode(t, modeIPTables)
	n.start(t, web)
	routed := func(want string) {
		t.Helper()
		if got := strings.TrimSpace(n.tool(t, "sysctl", "-n", "net.ipv4.conf.all.route_localnet")); got != want {
			t.Errorf("route_localnet is %s, want %s", got, want)
		}
	}
	wantRefused(t, n.Lab.Node, "127.0.0.1")
	routed("0")

	mark := n.Log.Len()
	n.restart(t, modeIPTables+"iptables.localhostNodePorts = true\n")
	n.synced(t, mark)
	ask(t, n.Lab.Node, "tcp", "127.0.0.1:30080")
	ask(t, n.Client, "tcp", "192.0.2.1:30080")
	wantRefused(t, n.Lab.Node, "::1")
	routed("1")

	mark = n.Log.Len()
	n.restart(t, modeIPTables)
	n.synced(t, mark)
	wantRefused(t, n.Lab.Node, "127.0.0.1")
	routed("0")
}
