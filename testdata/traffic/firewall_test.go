package traffic

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// A firewall that drops traffic to a VIP is named in the log, and so is its
// removal. svcproxy does not open it. Where packets get through anyway nothing
// is said.
func TestFirewallInTheWayIsReported(t *testing.T) {
	n := newNode(t, "ipvs.syncPeriod = \"1s\"")
	n.start(t, clusterIP("web", "10.96.0.20", allV4))
	nft := func(hook, rule string) string {
		return fmt.Sprintf("table inet fw { chain gate { type filter hook %s priority 0; policy drop; %s; }; }\n", hook, rule)
	}
	for _, c := range []struct {
		name, said string
		come, gone []string
		feed       string
		foreseen   bool // also by plan and check, which ask the same: once for each program
	}{
		{name: "iptables INPUT", said: "iptables filter INPUT: no rule accepts -t 10.96.0.20:80",
			come: []string{"iptables", "-P", "INPUT", "DROP"}, gone: []string{"iptables", "-P", "INPUT", "ACCEPT"}, foreseen: true},
		{name: "iptables OUTPUT", said: "iptables filter OUTPUT: no rule accepts",
			come: []string{"iptables", "-P", "OUTPUT", "DROP"}, gone: []string{"iptables", "-P", "OUTPUT", "ACCEPT"}},
		{name: "a rule for all", said: "iptables filter INPUT: no rule accepts",
			come: []string{"iptables", "-A", "INPUT", "-j", "REJECT"}, gone: []string{"iptables", "-D", "INPUT", "-j", "REJECT"}},
		{name: "nftables input", said: "nftables inet fw gate: no rule accepts -t 10.96.0.20:80, it is left to drop",
			feed: nft("input", "tcp dport 22 accept"), gone: []string{"nft", "delete", "table", "inet", "fw"}, foreseen: true},
		{name: "nftables forward", said: "nftables inet fw gate: no rule accepts -t 10.96.0.20:80, it is left to drop",
			feed: nft("forward", "ct state new tcp dport 80 accept"), gone: []string{"nft", "delete", "table", "inet", "fw"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := n.Log.Len()
			if c.feed != "" {
				n.feed(t, c.feed, "nft", "-f", "-")
			} else {
				n.tool(t, c.come[0], c.come[1:]...)
			}
			_, err := n.Wait(mark, `msg="in the way" err="`+regexp.QuoteMeta(c.said))
			must(t, err)
			if connect(n.Client, "10.96.0.20", 80) == nil {
				t.Error("the VIP can be reached")
			}
			if out, code := n.asks(t, "status"); code != 7 || !strings.Contains(out, c.said) {
				t.Errorf("status: exit %d, want 7 and %q:\n%s", code, c.said, out)
			}
			for command, want := range map[string]int{"plan": 0, "check": 7} { // in the node's network namespace
				if !c.foreseen {
					break
				}
				out := n.tool(t, "sh", "-c", fmt.Sprintf("%s %s --config %s/svcproxy.toml 2>&1; echo exit $?", n.Binary, command, n.Dir))
				if !strings.Contains(out, "svcproxy: warning: "+c.said) || !strings.Contains(out, fmt.Sprintf("exit %d", want)) {
					t.Errorf("%s: want exit %d and %q:\n%s", command, want, c.said, out)
				}
			}
			mark = n.Log.Len()
			n.tool(t, c.gone[0], c.gone[1:]...)
			_, err = n.Wait(mark, "nothing is in the way any more")
			must(t, err)
			wantEach(t, n.Client, "tcp", "10.96.0.20:80")
		})
	}

	t.Run("what lets VIPs through", func(t *testing.T) {
		mark := n.Log.Len()
		n.tool(t, "iptables", "-P", "FORWARD", "DROP")
		n.tool(t, "iptables", "-A", "INPUT", "-p", "tcp", "--dport", "80", "-j", "ACCEPT")
		n.tool(t, "iptables", "-P", "INPUT", "DROP")
		n.feed(t, nft("forward", "ct state established,related accept"), "nft", "-f", "-")
		n.serve(t, clusterIP("web", "10.96.0.20", allV4)+clusterIP("more", "10.96.0.21", allV4)) // of the same port
		n.drift(t)
		_, err := n.Wait(mark, "msg=drift") // found by a full check
		must(t, err)
		for _, vip := range []string{"10.96.0.20:80", "10.96.0.21:80"} {
			wantEach(t, n.Client, "tcp", vip)
		}
		if said := n.Log.String()[mark:]; regexp.MustCompile("in the way").MatchString(said) {
			t.Errorf("said:\n%s", said)
		}
	})
}
