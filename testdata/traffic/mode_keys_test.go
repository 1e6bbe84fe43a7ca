package traffic

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
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

// kubeProxysRules are those of one service, as kube-proxy writes them in mode iptables.
const kubeProxysRules = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-XPGD46QRK7WJZT7O - [0:0]
:KUBE-SEP-SXIVWICOYRO3J4NJ - [0:0]
-A KUBE-SERVICES -d 10.96.0.20/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-XPGD46QRK7WJZT7O
-A KUBE-SVC-XPGD46QRK7WJZT7O -j KUBE-SEP-SXIVWICOYRO3J4NJ
-A KUBE-SEP-SXIVWICOYRO3J4NJ -p tcp -m tcp -j DNAT --to-destination 10.2.1.10:7000
COMMIT
`

// kube-proxy in mode iptables takes the node over from svcproxy, which is then removed: what kube-proxy serves with stays.
func TestCleanupLeavesKubeProxysRules(t *testing.T) {
	for name, main := range map[string]string{"iptables": modeIPTables, "ipvs": "mode = \"ipvs\"\n"} {
		t.Run(name, func(t *testing.T) {
			if name == "ipvs" {
				kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy)
			}
			n := newNode(t, main)
			n.tool(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
			n.start(t, web)
			must(t, n.Stop())
			rules := kubeProxysRules // which need a jump that svcproxy also has
			if name == "ipvs" && native() {
				rules += "*nat\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n"
			}
			n.feed(t, rules, "iptables-restore", "--noflush")
			out, code, err := n.Command("cleanup")
			if err != nil || code != 0 || !strings.Contains(out, "--leftovers") {
				t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
			}
			ask(t, n.Client, "tcp", "10.96.0.20:80")
			for _, line := range n.read(t).Lines() {
				for _, ours := range []string{"KUBE-VIP-FILTER", "KUBE-IPVS-", "KUBE-LOAD-BALANCER", "KUBE-NODE-PORT", "kube-ipvs0"} {
					if strings.Contains(line, ours) {
						t.Errorf("left by cleanup: %s", line)
					}
				}
			}
			if out, code, err := n.Command("cleanup", "--leftovers"); err != nil || code != 0 {
				t.Fatalf("cleanup --leftovers: %v, exit code %d\n%s", err, code, out)
			}
			if left := n.tool(t, "iptables-save"); strings.Contains(left, "KUBE-S") {
				t.Errorf("left by cleanup --leftovers:\n%s", left)
			}
		})
	}
}

// kube-proxy in mode ipvs has taken all objects over. Cleanup leaves the node alone while it runs, and not if it has another mode.
func TestCleanupBesideKubeProxy(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	must(t, n.Stop())
	before := n.read(t)
	script := filepath.Join(t.TempDir(), "kube-proxy")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nwhile :; do sleep 1; done\n"), 0o755))
	run := func(mode string) (stop func()) {
		cmd := exec.Command(script, "--proxy-mode="+mode)
		must(t, n.Lab.Node.Start(cmd))
		return func() {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	stop := run("ipvs")
	for _, args := range [][]string{{}, {"--dry-run"}, {"--leftovers"}} {
		if out, code, err := n.Command("cleanup", args...); err != nil || code != 1 || !strings.Contains(out, "in mode ipvs") {
			t.Errorf("cleanup %v: %v, exit code %d\n%s", args, err, code, out)
		}
	}
	stop()
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("cleanup changed the kernel:\n%s", head(diff))
	}
	defer run("iptables")()
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
}
