package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A large table is served while it is loaded. Each send to the kernel is made to take half a second longer. The load
// makes about a hundred, so on any machine it lasts much longer than what is asked meanwhile.
func TestServicesAreServedWhileATableIsLoaded(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	n := newNode(t, "ipvs.syncPeriod = \"1h\"")
	const count = 2500
	const pod = `["10.2.1.10"]`
	vip := func(i int) string { return fmt.Sprintf("10.97.%d.%d", i/250, i%250+1) }
	var all strings.Builder
	for i := range count {
		all.WriteString(clusterIP(fmt.Sprintf("s%d", i), vip(i), pod))
	}
	removed := clusterIP("removed", "10.96.0.20", pod)
	must(t, n.Serve(removed+all.String()))
	mark := n.Log.Len()
	must(t, n.StartSlowly(500*time.Millisecond))

	n.served(t, "10.96.0.20:80")
	if made := n.countVirtuals(t); made > count {
		t.Fatalf("all %d virtual servers exist when the first is served", made)
	}
	n.loading(t, count+1)

	// The file is saved during the load.
	must(t, n.Serve(clusterIP("added", "10.96.0.21", pod)+all.String()))
	n.served(t, "10.96.0.21:80")
	made := n.countVirtuals(t)
	if made > count {
		t.Errorf("all %d virtual servers exist when a service is served that was written during the load", made)
	}
	t.Logf("served after %d of %d virtual servers", made, count+1)
	if err := n.Client.Connect(netip.MustParseAddrPort("10.96.0.20:80")); err == nil {
		t.Error("a service that was removed during the load is served when an added one is")
	}
	n.synced(t, mark)
	if made := n.countVirtuals(t); made != count+1 {
		t.Errorf("%d virtual servers in the end", made)
	}
	ask(t, n.Client, "tcp", vip(count-1)+":80")
}

// loading waits until status says that a load of so many VIPs goes on. Between two parts of it no sync runs.
func (n node) loading(t *testing.T, vips int) {
	t.Helper()
	must(t, lab.Eventually(time.Minute, func() error {
		r := n.status(t).Sync.Running
		if r.NewVIPs != vips || r.VIPs == 0 || r.VIPs >= vips ||
			!strings.Contains(r.Text, fmt.Sprintf("%d of %d new VIPs are loaded", r.VIPs, r.NewVIPs)) {
			return fmt.Errorf("status says that the load is at %+v", r)
		}
		return nil
	}))
}

// served waits until a service answers.
func (n node) served(t *testing.T, to string) {
	t.Helper()
	must(t, lab.Eventually(2*time.Minute, func() error {
		_, err := n.Client.Ask("tcp", netip.MustParseAddrPort(to))
		return err
	}))
}

// countVirtuals counts the virtual servers of the kernel.
func (n node) countVirtuals(t *testing.T) int {
	t.Helper()
	lines, err := n.Lab.Node.Virtuals()
	must(t, err)
	all, err := lab.VirtualServers(lines)
	must(t, err)
	return len(all)
}

// An order is in the rules before a large table is loaded. Each call of iptables-restore is made to take a second
// longer, so on any machine the load lasts much longer than the order.
func TestNewsDuringALoadOfRules(t *testing.T) {
	n := newNode(t, "mode = \"iptables\"\nipvs.syncPeriod = \"1h\"")
	const count = 2000
	var all strings.Builder
	for i := range count {
		all.WriteString(clusterIP(fmt.Sprintf("s%d", i), fmt.Sprintf("10.97.%d.%d", i/250, i%250+1),
			`["10.2.2.10"]`))
	}
	web := clusterIP("web", "10.96.0.20", `["10.2.1.10", "10.2.2.10"]`)
	must(t, n.Serve(web))
	bin := t.TempDir()
	real, err := exec.LookPath("iptables-restore")
	must(t, err)
	script := fmt.Sprintf("#!/bin/sh\nsleep 1\nexec %s \"$@\"\n", real)
	must(t, os.WriteFile(filepath.Join(bin, "iptables-restore"), []byte(script), 0o755))
	must(t, n.Start("env", "PATH="+bin+":"+os.Getenv("PATH")))
	n.served(t, "10.96.0.20:80")
	must(t, n.Serve(web+all.String()))
	n.loading(t, count)
	if out, code := n.asks(t, "drain", "10.2.1.10"); code != 0 {
		t.Fatalf("drain ends with %d:\n%s", code, out)
	}
	must(t, lab.Eventually(patience, func() error {
		rules, err := n.Lab.Node.Rules("iptables-save")
		if err == nil && slices.ContainsFunc(rules, func(r string) bool { return strings.Contains(r, "10.2.1.10:") }) {
			err = errors.New("the drained endpoint has rules")
		}
		return err
	}))
	n.loading(t, count)
	n.served(t, "10.97.7.250:80")
}
