package traffic

import (
	"fmt"
	"net/netip"
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
	const count = 5000
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
	n.loading(t, count+1)

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
