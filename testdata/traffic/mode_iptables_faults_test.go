package traffic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// At any time of a load, a VIP that is bound has rules: without them its clients would
// reach the host's own ports. Otherwise as TestKilledDuringALoad.
func TestKilledDuringALoadOfRules(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	crashes{
		main: modeIPTables, kills: 6,
		counts: []string{"dev", "fib_trie"}, // our device comes just before the rules, VIPs come after them
		want:   wantRules,
	}.run(t)
}

// wantRules wants a rule that serves or refuses each bound VIP, and one that refuses the
// ports that are not served.
func wantRules(t *testing.T, r lab.Reading) {
	t.Helper()
	served, guarded := map[string]bool{}, map[string]bool{}
	for _, line := range r.Rules {
		f := strings.Fields(line)
		if len(f) < 5 || f[3] != "-d" {
			continue
		}
		vip, _, _ := strings.Cut(f[4], "/")
		switch f[2] {
		case "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES":
			served[vip] = true
		case "KUBE-VIP-FILTER":
			guarded[vip] = true
		}
	}
	for _, line := range r.Addrs {
		vip, ok := strings.CutPrefix(line, "kube-ipvs0 ")
		if vip, _, _ = strings.Cut(vip, "/"); ok && !strings.HasPrefix(vip, "fe80:") && !(served[vip] && guarded[vip]) {
			t.Errorf("%s is bound; it has rules: %t, ports that are not served are refused: %t", vip, served[vip], guarded[vip])
		}
	}
	for _, line := range r.Virtuals {
		if !strings.Contains(line, foreignVirtual) {
			t.Errorf("a virtual server in mode iptables: %s", line)
		}
	}
}

// What others do to our rules, and to our VIPs, is put right, and what is not ours stays
// as it was.
func TestDriftOfRulesHeals(t *testing.T) {
	n := newLonelyNode(t, modeIPTables)
	n.plantForeign(t)
	n.start(t, web+services(5, `["10.5.0.1"]`)+clusterIP("none", "10.96.0.40", "[]"))
	n.heals(t, []drift{
		{"filter KUBE-SERVICES emptied", `iptables -F KUBE-SERVICES`},
		{"nat KUBE-SERVICES emptied", `iptables -t nat -F KUBE-SERVICES`},
		{"a service's chain emptied", `iptables -t nat -F $(iptables -t nat -S | grep -o -m1 'N KUBE-SVC-.*' | cut -c3-)`},
		// The rules are read first: a restore of the legacy back end keeps the lock until its input ends, and a listing waits
		// for that lock without end.
		{"a service's chain removed", `c=$(iptables -t nat -S | grep -o -m1 'N KUBE-SVC-.*' | cut -c3-)
			jumps=$(iptables -t nat -S | grep -e "-j $c\$" | sed 's/^-A/-D/')
			printf '%s\n' '*nat' "$jumps" "-F $c" "-X $c" COMMIT | iptables-restore --noflush`},
		{"an endpoint replaced", `c=$(iptables -t nat -S | grep -o -m1 'N KUBE-SVC-.*' | cut -c3-)
			iptables -t nat -A $c -p tcp -j DNAT --to-destination 10.9.9.9:7000; iptables -t nat -D $c 1`},
		{"rules added to our chains", `iptables -t nat -I KUBE-SERVICES -j RETURN; ip6tables -I KUBE-VIP-FILTER -j ACCEPT`},
		{"a guard removed", `iptables -D KUBE-VIP-FILTER -d 10.96.0.20/32 -j REJECT`},
		{"our jumps removed", `iptables -t nat -F OUTPUT; ip6tables -t nat -F POSTROUTING`},
		{"our jumps twice", `iptables -t nat -A PREROUTING -j KUBE-SERVICES; ip6tables -A INPUT -j KUBE-VIP-FILTER`},
	})
	if kerneltest.Dummy.Missing() == nil {
		n.heals(t, driftOfVIPs)
	}
}

// A flush is for everybody's rules. Ours come back, others are for their owners, and
// clients are served again. What was connected stays so, as long as the kernel tracks
// connections: it ends that when the last chain of nat is gone.
func TestRulesFlushedByHandServeAgain(t *testing.T) {
	n := newNode(t, modeIPTables)
	n.start(t, web)
	ours := func(line string) bool {
		return strings.Contains(line, "KUBE-") || strings.HasPrefix(line, "kube-ipvs0 ")
	}
	whole := n.read(t).Keep(ours)
	held := n.chat(t, "10.96.0.20:80", "pod1")
	flushed := func(script string) {
		t.Helper()
		n.tool(t, "sh", "-ec", script)
		if err := lab.Eventually(patience, func() error {
			have, err := n.Lab.Node.Read()
			if diff := lab.Diff(whole, have.Keep(ours)); err == nil && diff != "" {
				err = fmt.Errorf("wanted and found:\n%s", head(diff))
			}
			return err
		}); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		n.wantWeb(t, script)
	}
	flushed(`iptables -t nat -F`)
	flushed(`ip6tables -t nat -F`)
	flushed(`iptables -F`)
	held.wantAlive(t)
	held.Close()
	flushed(`for tool in iptables ip6tables; do printf '*nat\nCOMMIT\n*filter\nCOMMIT\n' | $tool-restore; done`)
	if strings.Contains(n.tool(t, "iptables", "--version"), "nf_tables") {
		flushed(`nft flush ruleset`)
	}
}
