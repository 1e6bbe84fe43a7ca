package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// leftIn returns the lines about chains of ours in the tables of one back end.
func (n node) leftIn(t *testing.T, backend string) string {
	t.Helper()
	var left strings.Builder
	for _, tool := range []string{"iptables", "ip6tables"} {
		for line := range strings.Lines(n.tool(t, tool+"-"+backend+"-save")) {
			if strings.Contains(line, "KUBE-") {
				left.WriteString(line)
			}
		}
	}
	return left.String()
}

// wantRulesIn wants rules in the tables of a back end, and none in those of the other one.
func (n node) wantRulesIn(t *testing.T, backend string) {
	t.Helper()
	for _, b := range kerneltest.Backends {
		if left := n.leftIn(t, b); (left != "") != (b == backend) {
			t.Errorf("back end %s; in the tables of %s:\n%s", backend, b, head(left))
		}
	}
}

func notUserspace(t *testing.T) {
	t.Helper()
	if modeOf(t) == "userspace" {
		t.Skip("a restart ends the connections of mode userspace, and it has hardly any rules")
	}
}

// The node's iptables become those of the other back end, and back, as an upgrade of the distribution does. No connection is
// lost, no new one is refused, and no rule of the run before is left.
func TestBackEndChangesUnderTraffic(t *testing.T) {
	notUserspace(t)
	kerneltest.UseBackend(t, "legacy") // also for what doctor says in the end
	n := newNode(t, "")
	n.start(t, web)
	load := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		addr := netip.MustParseAddrPort(to)
		load.add(to, func() error { _, err := n.Client.Ask("tcp", addr); return err })
	}
	held := n.holdMany(t)
	for _, to := range []string{"nft", "legacy"} {
		kerneltest.UseBackend(t, to)
		n.restart(t, "")
		must(t, lab.Eventually(patience, func() error {
			if out, code, err := n.Command("reload", "--wait"); err != nil || code != 0 {
				return fmt.Errorf("exit code %d, %v\n%s", code, err, out)
			}
			return nil
		}))
		load.goOn(t, 40)
		n.wantRulesIn(t, to)
		if lost := unanswered(held); lost > 0 {
			t.Errorf("%d of %d connections were lost by the change to %s", lost, len(held), to)
		}
	}
	load.wantServed(t)
	n.wantWeb(t, "in the end")
}

// After a change of the back end what the files say holds: source ranges, and removed services. Rules that come back into
// the other back end go at the next check. The unit's PATH may lack /usr/sbin.
func TestOldBackEndServesNobody(t *testing.T) {
	notUserspace(t)
	const lb = `
[services.lb]
type = "LoadBalancer"
loadBalancerIPs = ["198.51.100.81"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ["10.2.1.10"]
`
	for i, to := range kerneltest.Backends {
		from := kerneltest.Backends[1-i]
		t.Run(from+" to "+to, func(t *testing.T) {
			n := newNode(t, eachSecond)
			kerneltest.UseBackend(t, from)
			n.start(t, web+lb)
			ask(t, n.Client, "tcp", "198.51.100.81:80")
			must(t, n.Stop())
			old := n.tool(t, "iptables-save")

			kerneltest.UseBackend(t, to)
			path, _, _ := strings.Cut(os.Getenv("PATH"), ":")
			must(t, n.Serve(web+lb+"loadBalancerSourceRanges = [\"203.0.113.0/24\"]\n"))
			mark := n.Log.Len()
			must(t, n.Start("env", "PATH="+path+":/usr/bin:/bin"))
			n.synced(t, mark)
			wantNoAnswer := func(when string) {
				t.Helper()
				if a, err := n.Client.Ask("tcp", netip.MustParseAddrPort("198.51.100.81:80")); err == nil {
					t.Errorf("%s: %s answers", when, a.Backend)
				}
			}
			wantNoAnswer("outside of the source range")
			n.wantRulesIn(t, to)

			mark = n.Log.Len()
			n.feed(t, old, "iptables-"+from+"-restore", "--noflush")
			if _, err := n.Wait(mark, lab.Synced); err != nil {
				t.Fatal(err)
			}
			n.wantRulesIn(t, to)
			n.serve(t, web)
			wantNoAnswer("removed")
			must(t, n.Stop())

			kerneltest.UseBackend(t, from) // and cleanup looks in both, too
			if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
				t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
			}
			n.wantRulesIn(t, "")
		})
	}
}

// kube-proxy's image chooses a back end by itself. Its rules in the other one are found.
func TestKubeProxysRulesInTheOtherBackEnd(t *testing.T) {
	n := newNode(t, modeIPTables)
	kerneltest.UseBackend(t, "nft")
	n.tool(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	rules := func() {
		n.feed(t, kubeProxysRules+"*nat\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n", "iptables-legacy-restore", "--noflush")
	}
	must(t, n.Serve(web))
	rules()
	if out, code, err := n.Command("doctor"); err != nil || code == 0 || !strings.Contains(out, "in the tables of iptables-legacy") {
		t.Errorf("doctor: %v, exit code %d\n%s", err, code, out)
	}
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 || !strings.Contains(out, "in the tables of iptables-legacy") {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	ask(t, n.Client, "tcp", "10.96.0.20:80")
	if out, code, err := n.Command("cleanup", "--leftovers"); err != nil || code != 0 {
		t.Errorf("cleanup --leftovers: %v, exit code %d\n%s", err, code, out)
	}
	n.wantRulesIn(t, "")
	rules()
	n.start(t, web)
	n.wantRulesIn(t, "nft")
	n.wantWeb(t, "with kube-proxy's rules gone")
}
