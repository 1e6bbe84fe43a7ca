package traffic

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Where sysctls cannot be written nothing could be masqueraded: no VIP is opened or
// bound, and it is said why. As soon as they can, all is served.
func TestReadOnlySysctlsKeepVIPsClosed(t *testing.T) {
	n := newNode(t, "")
	const sysctls = "/proc/sys"
	must(t, unix.Mount(sysctls, sysctls, "", unix.MS_BIND, ""))
	mounted := true
	unmount := func() {
		if mounted {
			mounted = false
			must(t, unix.Unmount(sysctls, unix.MNT_DETACH))
		}
	}
	t.Cleanup(unmount)
	must(t, unix.Mount("", sysctls, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))

	must(t, n.Serve(clusterIP("web", "10.96.0.20", allV4)))
	must(t, n.Start())
	_, err := n.Wait(0, `msg="sync failed" .*net.ipv4.vs.conntrack.*read-only file system`)
	must(t, err)
	if addrs, err := n.Lab.Node.Addrs(); err != nil || slices.ContainsFunc(addrs, func(a string) bool { return strings.Contains(a, "10.96.0.20") }) {
		t.Errorf("bound: %q, %v", addrs, err)
	}
	if virtuals, err := n.Lab.Node.Virtuals(); err != nil || len(virtuals) != 0 {
		t.Errorf("virtual servers: %q, %v", virtuals, err)
	}
	if connect(n.Client, "10.96.0.20", 80) == nil {
		t.Error("the VIP answers")
	}
	if out, code, err := n.Command("status"); err != nil || code != 7 || !strings.Contains(out, "read-only file system") {
		t.Errorf("status: exit code %d, %v\n%s", code, err, out)
	}
	mark := n.Log.Len()
	unmount()
	n.synced(t, mark)
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
}
