package traffic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// kube-proxy creates each of its sets with -exist at each sync, and gives up if one
// is there in another shape. So every set of ours has its arguments, also one that
// an earlier version made smaller.
func TestKubeProxyFindsItsSetsInOurs(t *testing.T) {
	n := newNode(t, "")
	small := strings.NewReplacer("maxelem 65536", "maxelem 1024", "hashsize 1024", "hashsize 512")
	n.feed(t, small.Replace(createLines(t)), "ipset", "restore")
	n.start(t, web)
	for line := range strings.Lines(createLines(t)) {
		if out, err := n.Lab.Node.Run("ipset", append(strings.Fields(line), "-exist")...); err != nil {
			t.Errorf("%s: %v %s", line, err, out)
		}
	}
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
}

// createLines are the sets that kube-proxy makes, as it makes them.
func createLines(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(leftover(t, "ipset")) {
		if strings.HasPrefix(line, "create ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Entries of a set with a timeout vanish one by one, and nothing notices before the
// next check.
func TestSetsWithATimeoutAreReplaced(t *testing.T) {
	n := newNode(t, "")
	for _, set := range []string{
		"KUBE-CLUSTER-IP hash:ip,port timeout 600", "KUBE-LOOP-BACK hash:ip,port,ip counters comment",
		"KUBE-NODE-PORT-TCP bitmap:port range 30000-30010", "KUBE-IPVS-IPS hash:ip netmask 24",
	} {
		n.tool(t, "ipset", append([]string{"create"}, strings.Fields(set)...)...)
	}
	n.start(t, web)
	for _, word := range []string{"timeout", "counters", "comment", "30000", "netmask"} {
		if all := n.tool(t, "ipset", "save"); strings.Contains(all, word+" ") {
			t.Errorf("%s:\n%s", word, all)
		}
	}
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
	wantEach(t, n.Client, "tcp", "192.0.2.1:30080")
}

// A set of another type that a foreign rule uses cannot be destroyed. It is
// reported once, the other services are served, and no chain is deleted and created
// again meanwhile.
func TestSetOfAnotherTypeThatAForeignRuleHoldsIsWaitedFor(t *testing.T) {
	n := newNode(t, eachSecond)
	n.tool(t, "ipset", "create", "KUBE-LOAD-BALANCER", "hash:net")
	n.tool(t, "iptables", "-A", "FORWARD", "-m", "set", "--match-set", "KUBE-LOAD-BALANCER", "src", "-j", "ACCEPT")
	n.start(t, web)
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
	if said := strings.Count(n.Log.String(), "ipset KUBE-LOAD-BALANCER is a hash:net"); said != 1 {
		t.Errorf("said %d times", said)
	}
	out, _, err := n.Command("status")
	must(t, err)
	if !strings.Contains(out, "KUBE-LOAD-BALANCER is a hash:net") {
		t.Errorf("status does not say so:\n%s", out)
	}
	whole, mark := n.read(t), n.Log.Len()
	time.Sleep(3 * time.Second) // three checks, or as many retries
	if log := n.Log.String()[mark:]; strings.Contains(log, "msg=synced") || strings.Contains(log, "failed") {
		t.Errorf("not at rest:\n%s", log)
	}
	if diff := lab.Diff(whole, n.read(t)); diff != "" {
		t.Errorf("meanwhile:\n%s", diff)
	}

	n.tool(t, "iptables", "-D", "FORWARD", "-m", "set", "--match-set", "KUBE-LOAD-BALANCER", "src", "-j", "ACCEPT")
	must(t, lab.Eventually(20*time.Second, func() error {
		if out := n.tool(t, "ipset", "save", "KUBE-LOAD-BALANCER"); !strings.Contains(out, "hash:ip,port") || !strings.Contains(out, "198.51.100.80,tcp:80") {
			return fmt.Errorf("after the rule went: %s", out)
		}
		return nil
	}))
	wantEach(t, n.Client, "tcp", "198.51.100.80:80")
}
