package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// A hash scheduler keeps a draining real server in its table. Without the
// fallback flag it refuses every client that hashes to it: a third of 300 here.
// dh has no such flag, so what is removed goes at once.
func TestNoNewClientIsRefusedWhileAnEndpointDrains(t *testing.T) {
	n := newNode(t, "")
	clients := manyClients(t, n, 300)
	schedulers := []struct {
		name, vip string
		clients   int
		drains    bool
	}{
		{"mh", "10.96.0.20", 300, true},
		{"sh", "10.96.0.21", 300, true},
		{"dh", "10.96.0.22", 300, false},
		{"rr", "10.96.0.23", 30, true},
		{"wrr", "10.96.0.24", 30, true},
		{"lc", "10.96.0.27", 30, true},
		{"wlc", "10.96.0.28", 30, true},
		{"sed", "10.96.0.29", 30, true},
		{"nq", "10.96.0.30", 30, true},
	}
	leaving := map[string]string{} // the endpoint to remove, by scheduler
	table := func(more string) string {
		b := more
		for _, s := range schedulers {
			b += clusterIP(s.name, s.vip, strings.ReplaceAll(allV4, leaving[s.name], "")) + fmt.Sprintf("scheduler = %q\n", s.name)
		}
		// Added at weight 0, not drained to it: in sh's table from the start.
		return b + clusterIP("paused", "10.96.0.25", `[{ address = "10.2.1.10", weight = 0 }, "10.2.2.10", "10.2.3.10"]`) + "scheduler = \"sh\"\n"
	}
	n.start(t, table(""))
	for _, s := range schedulers {
		c, err := n.Client.DialFrom("tcp", clients[0], netip.MustParseAddrPort(s.vip+":80"))
		must(t, err)
		defer c.Close() // it keeps the drain going
		a, err := c.Ask()
		must(t, err)
		leaving[s.name] = fmt.Sprintf(`"10.2.%s.10", `, strings.TrimPrefix(a.Backend, "pod"))
		if a.Backend == "pod3" {
			leaving[s.name] = `, "10.2.3.10"`
		}
	}
	n.serve(t, table(""))
	// The drains are in the kernel, and go on over a restart.
	n.Kill()
	mark := n.Log.Len()
	must(t, n.Serve(table(clusterIP("another", "10.96.0.26", allV4))))
	must(t, n.Start())
	n.synced(t, mark)

	for _, s := range schedulers {
		t.Run(s.name, func(t *testing.T) {
			real := strings.Trim(leaving[s.name], `", `)
			want := map[bool]string{true: "0", false: ""}[s.drains]
			if w := weightOf(t, n, s.vip+":80", real+":7000"); w != want {
				t.Errorf("%s has weight %q, want %q", real, w, want)
			}
			wantServed(t, n, clients[:s.clients], s.vip+":80")
		})
	}
	t.Run("weight 0 in the file", func(t *testing.T) { wantServed(t, n, clients, "10.96.0.25:80") })
}

// wantServed wants every client's connection accepted.
func wantServed(t *testing.T, n node, clients []netip.Addr, vip string) {
	t.Helper()
	refused, who := 0, map[string]int{}
	for _, from := range clients {
		c, err := n.Client.DialFrom("tcp", from, netip.MustParseAddrPort(vip))
		if err != nil {
			refused++
			continue
		}
		if a, err := c.Ask(); err == nil {
			who[a.Backend]++
		}
		c.Reset()
	}
	t.Logf("%s: %v", vip, who)
	if refused > 0 {
		t.Errorf("%s: %d of %d clients were refused", vip, refused, len(clients))
	}
}

// manyClients gives the client so many addresses more, which the node has a route to.
func manyClients(t *testing.T, n node, count int) []netip.Addr {
	t.Helper()
	clients := make([]netip.Addr, count)
	var commands []string
	for i := range clients {
		clients[i] = netip.AddrFrom4([4]byte{198, 18, byte(i / 200), byte(1 + i%200)})
		commands = append(commands, fmt.Sprintf("addr add %s/32 dev eth0", clients[i]))
	}
	must(t, n.Client.IP(commands...))
	must(t, n.Lab.Node.IP("route add 198.18.0.0/15 via "+n.Client.V4.String()))
	return clients
}
