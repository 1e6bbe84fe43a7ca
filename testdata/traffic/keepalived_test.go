package traffic

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// vrrpVIP is in the client's subnet: who has it answers for it on that link.
const vrrpVIP = "192.0.2.80"

// keepalived is Debian's, with one VIP on a host's link.
type keepalived struct {
	cmd *exec.Cmd
	log lab.Log
}

// keepalivedArgs are keepalived's arguments. Its pid files are beside its configuration: a second keepalived with the
// same ones does not start.
func keepalivedArgs(file string, more ...string) []string {
	args := []string{"--dont-fork", "--log-console", "--log-detail", "--use-file=" + file, "--pid=" + file + ".pid"}
	for _, part := range []string{"vrrp", "checkers", "bfd"} {
		args = append(args, "--"+part+"_pid="+file+"."+part)
	}
	return append(args, more...)
}

func startKeepalived(t *testing.T, on *lab.Host, link string, priority int) *keepalived {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keepalived.conf")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf(`
global_defs {
  router_id %s
  vrrp_version 3
}
vrrp_instance vip {
  state BACKUP
  interface %s
  virtual_router_id 51
  priority %d
  advert_int 0.3
  virtual_ipaddress {
    %s/32 dev %s
  }
}
`, on.Name, link, priority, vrrpVIP, link)), 0o644))
	k := &keepalived{}
	k.cmd = exec.Command("keepalived", keepalivedArgs(file, "--vrrp")...)
	k.cmd.Stdout, k.cmd.Stderr = &k.log, &k.log
	must(t, on.Start(k.cmd))
	t.Cleanup(func() {
		k.stop()
		if t.Failed() {
			t.Logf("keepalived on %s:\n%s", on.Name, k.log.String())
		}
	})
	return k
}

// stop has it give its VIP away and end.
func (k *keepalived) stop() {
	if k.cmd.ProcessState == nil {
		_ = k.cmd.Process.Signal(syscall.SIGTERM)
		_ = k.cmd.Wait()
	}
}

// vipOn waits until the VIP is on these links of the node, and no others.
func (n node) vipOn(t *testing.T, when string, links ...string) {
	t.Helper()
	if err := lab.Eventually(patience, func() error {
		addrs, err := n.Lab.Node.Addrs()
		if err != nil {
			return err
		}
		var on []string
		for _, a := range addrs {
			if link, addr, _ := strings.Cut(a, " "); addr == vrrpVIP+"/32" {
				on = append(on, link)
			}
		}
		if !slices.Equal(on, links) {
			return fmt.Errorf("the VIP is on %v, want %v", on, links)
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
}

// TestKeepalivedHasAVIPToo: keepalived on the node has a service's VIP on a link while it is master, and lets
// go of it as backup. In both states edits take effect, a restart serves everything, the VIP stays on the
// link, and clients are answered where the node has the VIP.
func TestKeepalivedHasAVIPToo(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	kerneltest.Need(t, kerneltest.Tool("keepalived"))
	const main = "ipvs.strictARP = true\n"
	n := newNode(t, main)
	services := `
[services.web]
type = "LoadBalancer"
clusterIP = "10.96.0.20"
loadBalancerIPs = ["` + vrrpVIP + `"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ` + allV4 + "\n" + clusterIP("other", "10.96.0.21", allV4)
	n.start(t, services)

	edits := 0
	others := func(when string) {
		t.Helper()
		for _, vip := range []string{"10.96.0.20:80", "10.96.0.21:80"} {
			wantFrom(t, n.Client, vip, "pod1 pod2 pod3")
		}
		edits++
		name := fmt.Sprintf("edit%d", edits)
		services += clusterIP(name, fmt.Sprintf("10.96.0.%d", 100+edits), allV4)
		n.serve(t, services)
		added := fmt.Sprintf("10.96.0.%d:80", 100+edits)
		n.wantAnswer(t, added) // a sync that changed something may have been about keepalived's address
		wantFrom(t, n.Client, added, "pod1 pod2 pod3")
		if out, code, err := n.Command("status"); err != nil || code != 0 {
			t.Errorf("%s: status: %v, exit code %d\n%s", when, err, code, out)
		}
	}
	master := func(when string) {
		t.Helper()
		n.vipOn(t, when, "uplink")
		wantFrom(t, n.Client, vrrpVIP+":80", "pod1 pod2 pod3")
		others(when)
	}
	restart := func(when string) {
		t.Helper()
		must(t, n.Stop())
		must(t, n.Start())
		// A start that has nothing to change logs nothing.
		if err := lab.Eventually(patience, func() error {
			out, code, err := n.Command("status")
			if err == nil && code != 0 {
				err = fmt.Errorf("status: exit code %d: %s", code, out)
			}
			return err
		}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}

	k := startKeepalived(t, n.Lab.Node, "uplink", 100)
	master("master")
	restart("master")
	master("restarted as master")

	peer := startKeepalived(t, n.Client, "eth0", 200)
	must(t, lab.Eventually(patience, func() error {
		if !strings.Contains(k.log.String(), "Entering BACKUP STATE") {
			return fmt.Errorf("keepalived is not backup")
		}
		return nil
	}))
	others("backup")
	restart("backup")
	others("restarted as backup")
	n.healthy(t)

	peer.stop()
	master("master again")
	k.stop()
	n.vipOn(t, "without keepalived", "kube-ipvs0")
	others("without keepalived")
}
