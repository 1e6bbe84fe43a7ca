package traffic

import (
	"encoding/json"
	"fmt"
	"net/netip"
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

// keepalivedNode has a VIP by VRRP, and a virtual server with checks and a sorry server.
const keepalivedNode = `
global_defs {
  router_id node
  vrrp_version 3
}
vrrp_instance vip {
  state MASTER
  interface uplink
  virtual_router_id 51
  priority 100
  advert_int 0.3
  virtual_ipaddress {
    192.0.2.80/32 dev uplink
  }
}
virtual_server 192.0.2.80 80 {
  delay_loop 1
  lb_algo rr
  lb_kind NAT
  protocol TCP
  sorry_server 10.2.3.10 7000
  real_server 10.2.1.10 7000 {
    TCP_CHECK {
      connect_timeout 20
    }
  }
  real_server 10.2.2.10 7000 {
    TCP_CHECK {
      connect_timeout 20
    }
  }
}
`

// startAll starts keepalived with all its parts, and waits until it serves. ended waits for its end.
func (n node) startAll(t *testing.T, file string) (ended func()) {
	t.Helper()
	var log lab.Log
	cmd := exec.Command("keepalived", "--dont-fork", "--log-console", "--use-file="+file,
		"--pid="+file+".pid", "--vrrp_pid="+file+".vrrp", "--checkers_pid="+file+".checkers")
	cmd.Stdout, cmd.Stderr = &log, &log
	must(t, n.Lab.Node.Start(cmd))
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("keepalived:\n%s", log.String())
		}
	})
	must(t, lab.Eventually(patience, func() error {
		addrs, err := n.Lab.Node.Addrs()
		if err == nil && !slices.Contains(addrs, "uplink "+vrrpVIP+"/32") {
			err = fmt.Errorf("not master: %s", log.String())
		}
		return err
	}))
	_, err := log.Wait(t.Context(), 0, "Activating healthchecker for service .*10.2.2.10")
	must(t, err)
	return func() { _ = cmd.Wait() }
}

// imports returns the services that import makes, and the steps of a take-over.
func (n node) imports(t *testing.T, args ...string) (services string, steps []string) {
	t.Helper()
	out, code, err := n.Command("import", append([]string{"-o", "json"}, args...)...)
	var a struct {
		Document string
		Steps    []string
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &a)
	}
	if err != nil || code != 0 {
		t.Fatalf("import %q: exit code %d, %v\n%s", args, code, err, out)
	}
	return a.Document, a.Steps
}

// startsAsIs starts svcproxy and wants no write to IPVS.
func (n node) startsAsIs(t *testing.T) {
	t.Helper()
	if out, code, err := n.Command("check"); err != nil || code != 0 {
		t.Errorf("check: exit code %d, %v\n%s", code, err, out)
	}
	before := n.tool(t, "ipvsadm", "-Sn")
	must(t, n.StartTraced())
	n.synced(t, 0)
	trace, err := n.Trace()
	must(t, err)
	for _, w := range trace.Own().Writes() {
		if strings.HasPrefix(w.Type, "IPVS") || w.Type == "IP_VS_SO_SET" {
			t.Errorf("a write to IPVS: %+v", w)
		}
	}
	if after := n.tool(t, "ipvsadm", "-Sn"); after != before {
		t.Errorf("svcproxy changed\n%sto\n%s", before, after)
	}
	must(t, n.Stop())
	must(t, n.Start()) // without strace, which makes it slow
}

// TestKeepalivedIsTakenOverAndGivenBack: svcproxy takes the place of keepalived as import says, and gives it back. Of 200
// connections none ends, and new ones are answered at all times.
func TestKeepalivedIsTakenOverAndGivenBack(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("keepalived"))
	n := newNode(t, "")
	inGuest(t, "kills keepalived by its name")
	n.tool(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	file := filepath.Join(t.TempDir(), "keepalived.conf")
	must(t, os.WriteFile(file, []byte(keepalivedNode), 0o644))
	ended := n.startAll(t, file)

	vip := netip.MustParseAddrPort(vrrpVIP + ":80")
	held := n.held(t, vip, 200)
	l := newLoad(t)
	l.add("a connection each", func() error { _, err := n.Client.Ask("tcp", vip); return err })
	served := func(when string) {
		t.Helper()
		l.goOn(t, 10)
		if lost := unanswered(held); lost > 0 {
			t.Errorf("%s: %d of %d connections are lost", when, lost, len(held))
		}
	}

	services, steps := n.imports(t, "--live")
	must(t, n.Serve(services))
	n.startsAsIs(t)
	services, same := n.imports(t, file) // with checks and the sorry server
	if !slices.Equal(steps, same) {
		t.Errorf("the steps are %q, and by the file %q", steps, same)
	}
	n.serve(t, services)
	served("both run")

	n.does(t, steps, "pkill -STOP -x keepalived; kill -KILL $(pgrep -x keepalived | sort -rn)")
	ended()
	served("keepalived is killed")
	n.does(t, steps, "ip route append local 192.0.2.80 dev lo; ip address del 192.0.2.80/32 dev uplink")
	n.vipOn(t, "taken over", "kube-ipvs0")
	n.does(t, steps, "ip -4 route del local 192.0.2.80 dev lo proto boot")
	served("taken over")
	n.healthy(t)

	must(t, n.Stop())
	n.startAll(t, file)
	served("given back")
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 || !strings.Contains(out, "1 virtual server stays: keepalived") {
		t.Errorf("cleanup: exit code %d, %v\n%s", code, err, out)
	}
	n.vipOn(t, "cleaned up", "uplink")
	if sets := n.tool(t, "ipset", "list", "-n"); sets != "" {
		t.Errorf("cleanup left %s", sets)
	}
	served("cleaned up")
	l.wantServed(t)
}

// held opens connections that are answered.
func (n node) held(t *testing.T, to netip.AddrPort, count int) (held []*lab.Conn) {
	t.Helper()
	for range count {
		c, err := n.Client.Dial("tcp", to)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Ask()
		must(t, err)
		held = append(held, c)
	}
	return held
}

// does runs commands on the node, which are part of a step.
func (n node) does(t *testing.T, steps []string, commands string) {
	t.Helper()
	if !slices.ContainsFunc(steps, func(s string) bool { return strings.Contains(s, commands) }) {
		t.Errorf("no step says %q: %q", commands, steps)
	}
	n.tool(t, "sh", "-ec", commands)
}
