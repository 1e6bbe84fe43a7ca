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

// keepalived's configuration is a VIP by VRRP, and a virtual server with checks and a sorry server.
const (
	keepalivedVRRP = `
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
`
	keepalivedServes = `
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
)

// startAll starts keepalived with all parts that its configuration has, and waits until it has the VIP and serves. stop
// ends it, if it still runs.
func (n node) startAll(t *testing.T, file, config string) (stop func()) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(config), 0o644))
	var log lab.Log
	cmd := exec.Command("keepalived", keepalivedArgs(file)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	must(t, n.Lab.Node.Start(cmd))
	stop = func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() {
		stop()
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
	if strings.Contains(config, keepalivedServes) {
		_, err := log.Wait(t.Context(), 0, "Activating healthchecker for service .*10.2.2.10")
		must(t, err)
	}
	return stop
}

// imported is what import prints: services, and the steps of a take-over and of the way back.
type imported struct {
	Document    string
	Steps, Back []string
}

func (n node) imports(t *testing.T, args ...string) (a imported) {
	t.Helper()
	out, code, err := n.Command("import", append([]string{"-o", "json"}, args...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &a)
	}
	if err != nil || code != 0 {
		t.Fatalf("import %q: exit code %d, %v\n%s", args, code, err, out)
	}
	return a
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

// takeover is a node of keepalived that svcproxy takes over while clients use it.
type takeover struct {
	node
	imported
	file string // keepalived's configuration
	stop func() // of keepalived
	load *load
	held []*lab.Conn
}

// newTakeover starts keepalived, 200 connections and a load, and then svcproxy next to it.
func newTakeover(t *testing.T, n node, config string) *takeover {
	t.Helper()
	inGuest(t, "kills keepalived by its name")
	n.tool(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	o := &takeover{node: n, file: filepath.Join(t.TempDir(), "keepalived.conf")}
	o.stop = n.startAll(t, o.file, config)

	vip := netip.MustParseAddrPort(vrrpVIP + ":80")
	o.held, o.load = n.held(t, vip, 200), newLoad(t)
	o.load.add("a connection each", func() error { _, err := n.Client.Ask("tcp", vip); return err })

	live := n.imports(t, "--live")
	must(t, n.Serve(live.Document))
	n.startsAsIs(t)
	o.imported = n.imports(t, o.file) // with checks and the sorry server
	if !slices.Equal(live.Steps, o.Steps) || !slices.Equal(live.Back, o.Back) {
		t.Errorf("the steps are %q and %q, and by the file %q and %q", live.Steps, live.Back, o.Steps, o.Back)
	}
	n.serve(t, o.Document)
	o.served(t, "both run")
	return o
}

// served lets the load go on, and wants all connections.
func (o *takeover) served(t *testing.T, when string) {
	t.Helper()
	o.load.goOn(t, 10)
	if lost := unanswered(o.held); lost > 0 {
		t.Errorf("%s: %d of %d connections are lost", when, lost, len(o.held))
	}
}

// cleansUp wants nothing of svcproxy's to be left but for the virtual server that keepalived has.
func (o *takeover) cleansUp(t *testing.T) {
	t.Helper()
	if out, code, err := o.Command("cleanup"); err != nil || code != 0 || !strings.Contains(out, "1 virtual server stays: keepalived") {
		t.Errorf("cleanup: exit code %d, %v\n%s", code, err, out)
	}
	o.vipOn(t, "cleaned up", "uplink")
	if sets := o.tool(t, "ipset", "list", "-n"); sets != "" {
		t.Errorf("cleanup left %s", sets)
	}
	o.served(t, "cleaned up")
	o.load.wantServed(t)
}

const (
	killKeepalived = "pkill -STOP -x keepalived; kill -KILL $(pgrep -x keepalived | sort -rn)"
	removeVIP      = "ip address del 192.0.2.80/32 dev uplink"
	appendRoute    = "ip route append local 192.0.2.80 dev lo"
	deleteRoute    = "ip -4 route del local 192.0.2.80 dev lo proto boot"
)

// TestKeepalivedIsTakenOverAndGivenBack: svcproxy takes the place of keepalived as import says, and gives it back. Of 200
// connections none ends, and new ones are answered at all times.
func TestKeepalivedIsTakenOverAndGivenBack(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("keepalived"))
	n := newNode(t, "")
	must(t, n.Lab.Node.IP("address add 192.0.2.80/32 dev uplink"))
	o := newTakeover(t, n, keepalivedServes)
	n.does(t, o.Steps, killKeepalived)
	o.stop()
	o.served(t, "keepalived is killed")
	n.does(t, o.Steps, appendRoute+"; "+removeVIP)
	n.vipOn(t, "taken over", "kube-ipvs0")
	n.does(t, o.Steps, deleteRoute)
	o.served(t, "taken over")
	n.healthy(t)

	must(t, n.Stop())
	must(t, n.Lab.Node.IP("address add 192.0.2.80/32 dev uplink"))
	n.startAll(t, o.file, keepalivedServes)
	o.served(t, "given back")
	o.cleansUp(t)
}

// TestVRRPStaysWithKeepalived: svcproxy takes over the virtual servers alone, as import says for a configuration with
// VRRP, and gives them back. Of 200 connections none ends, and new ones are answered at all times.
func TestVRRPStaysWithKeepalived(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("keepalived"))
	n := newNode(t, fmt.Sprintf("ipvs.strictARP = true\nannounce.mode = \"vrrp\"\nannounce.file = %q\n", filepath.Join(t.TempDir(), "announced")))
	o := newTakeover(t, n, keepalivedVRRP+keepalivedServes)
	n.does(t, o.Steps, appendRoute)
	n.does(t, o.Steps, killKeepalived+"; "+removeVIP)
	o.stop()
	o.stop = n.startAll(t, o.file, keepalivedVRRP)
	n.does(t, o.Steps, deleteRoute)
	o.served(t, "keepalived has VRRP alone")
	n.vipOn(t, "keepalived has VRRP alone", "uplink")
	n.healthy(t)

	must(t, n.Stop())
	n.does(t, o.Back, appendRoute)
	o.stop()
	o.served(t, "keepalived has stopped")
	n.startAll(t, o.file, keepalivedVRRP+keepalivedServes)
	n.does(t, o.Back, deleteRoute)
	o.served(t, "given back")
	o.cleansUp(t)
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
