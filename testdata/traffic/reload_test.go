package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// svcproxy.toml is followed like the services are: what can change does, under
// traffic, and what cannot says so.
func TestConfigurationReloads(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	open, err := n.Client.Dial("tcp", netip.MustParseAddrPort("198.51.100.80:80"))
	must(t, err)
	defer open.Close()
	must(t, n.Client.Ping(netip.MustParseAddr("198.51.100.80")))

	configure := func(main string) {
		t.Helper()
		mark := n.Log.Len()
		must(t, n.Configure(main))
		n.synced(t, mark)
		if _, err := open.Ask(); err != nil {
			t.Errorf("under %q: the open connection: %v", main, err)
		}
		ask(t, n.Client, "tcp", "198.51.100.80:80")
	}
	wants := func(what, where string, there bool) {
		t.Helper()
		if strings.Contains(where, what) != there {
			t.Errorf("%q: there %t, want %t, in\n%s", what, !there, there, where)
		}
	}
	if modeOf(t) == "ipvs" {
		configure(`ipvs.scheduler = "wlc"`)
		wants("-s wlc", n.tool(t, "ipvsadm", "-Sn"), true)
		wants("-s wrr", n.tool(t, "ipvsadm", "-Sn"), false)
	}

	mark := n.Log.Len()
	configure("ipvs.scheduler = \"wlc\"\nipvs.vipPing = false\niptables.masqueradeBit = 15\nhostnameOverride = \"other\"")
	if _, err := n.Wait(mark, `msg="needs a restart" key=hostnameOverride`); err != nil {
		t.Error(err)
	}
	if modeOf(t) == "nftables" {
		wants("meta mark | 0x00008000", n.tables(t), true)
		wants("0x00004000", n.tables(t), false)
	} else {
		wants("0x8000/0x8000", n.tool(t, "iptables-save"), true)
		wants("0x4000", n.tool(t, "iptables-save"), false)
	}
	if n.Client.Ping(netip.MustParseAddr("198.51.100.80")) == nil {
		t.Error("a VIP answers pings under vipPing = false")
	}

	before := n.read(t)
	for _, broken := range []string{"ipvs.sheduler = \"rr\"", "ipvs.scheduler = \"rr\nmode", "ipvs.scheduler = \"frob\""} {
		mark := n.Log.Len()
		must(t, n.Configure(broken))
		if _, err := n.Wait(mark, `msg=refused source=static err=".*svcproxy.toml:\d+: `); err != nil {
			t.Error(err)
		}
	}
	if _, err := open.Ask(); err != nil {
		t.Error("under a broken configuration:", err)
	}
	if d := lab.Diff(before, n.read(t)); d != "" {
		t.Errorf("a refused configuration changed the kernel:\n%s", d)
	}
}

// A node that starts with a broken configuration serves under the last good one;
// a new node does not start at all.
func TestBrokenConfigurationAtStart(t *testing.T) {
	const good, broken = `ipvs.scheduler = "wlc"`, `ipvs.sheduler = "rr"`
	n := newNode(t, broken)
	empty := n.read(t)
	must(t, n.Serve(web))
	must(t, n.Start())
	<-n.Ended()
	if d := lab.Diff(empty, n.read(t)); n.ExitCode() != 3 || d != "" {
		t.Errorf("exit code %d, want 3; the kernel has changed:\n%s", n.ExitCode(), d)
	}
	must(t, n.Configure(good))
	n.start(t, web)
	before := n.read(t)
	must(t, n.Stop())
	must(t, n.Configure(broken))
	mark := n.Log.Len()
	must(t, n.Start())
	if _, err := n.Wait(mark, fmt.Sprintf(`level=ERROR msg=".*the last good one is used" .*svcproxy.toml:\d+: .*%s`, "sheduler")); err != nil {
		t.Error(err)
	}
	n.serve(t, web+clusterIP("more", "10.96.0.21", allV4))
	ask(t, n.Client, "tcp", "10.96.0.21:80")
	for line := range strings.Lines(lab.Diff(before, n.read(t))) {
		if strings.HasPrefix(line, "- ") {
			t.Errorf("missing under the last good configuration: %s", line)
		}
	}
	mark = n.Log.Len()
	must(t, n.Configure(good))
	if _, err := n.Wait(mark, `msg="nothing is refused any more" source=static`); err != nil {
		t.Error(err)
	}
}

// `svcproxy reload --wait` is honest: it fails while a tool fails or another
// program has a virtual server, it prints warnings, and when it returns 0 the
// kernel matches the files.
func TestReloadWaitIsHonest(t *testing.T) {
	n := newNode(t, "")
	bin, fails := t.TempDir(), filepath.Join(t.TempDir(), "fails")
	for _, name := range []string{"iptables-restore", "ip6tables-restore"} {
		real, err := exec.LookPath(name)
		must(t, err)
		script := fmt.Sprintf("#!/bin/sh\nif [ -e %s ]; then echo broken on purpose >&2; exit 1; fi\nexec %s \"$@\"\n", fails, real)
		must(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
	}
	must(t, n.Serve(web))
	must(t, n.Start("env", "PATH="+bin+":"+os.Getenv("PATH")))
	n.synced(t, 0)
	const warning = "svcproxy: warning: "
	reload := func(want int, says string) {
		t.Helper()
		out, code := n.asks(t, "reload", "--wait")
		if code != want || !strings.Contains(out, says) {
			t.Errorf("exit %d, want %d and %q:\n%s", code, want, says, out)
		}
	}
	reload(0, warning)
	if !native() { // which runs no tool
		must(t, os.WriteFile(fails, nil, 0o644))
		must(t, n.Configure("ipvs.vipPing = false"))
		reload(1, "broken on purpose")
		must(t, os.Remove(fails))
		reload(0, "")
	}

	n.tool(t, "ipvsadm", "-A", "-t", "10.96.0.77:80", "-s", "sed")
	must(t, n.Serve(web+clusterIP("taken", "10.96.0.77", allV4)))
	reload(7, "10.96.0.77:80")
	for i := range 5 {
		vip := fmt.Sprintf("10.96.7.%d", i+1)
		must(t, n.Serve(web+clusterIP("more", vip, allV4)))
		reload(0, "")
		if is := n.tool(t, "ipvsadm", "-Sn"); !strings.Contains(is, vip+":80") {
			t.Errorf("%s is not there when reload returns:\n%s", vip, is)
		}
	}
}

// What another program removes from IPVS is restored within seconds, long
// before the next check. Until then status says so.
func TestFlushedTablesAreBackInSeconds(t *testing.T) {
	n := newNode(t, "ipvs.syncPeriod = \"10m\"")
	n.start(t, web)
	before := n.tool(t, "ipvsadm", "-Sn")
	for _, flush := range []string{"-C", "-D"} {
		args := []string{flush}
		if flush == "-D" {
			args = append(args, "-t", "10.96.0.20:80")
		}
		n.tool(t, "ipvsadm", args...)
		began := time.Now()
		must(t, lab.Eventually(generous, func() error {
			if is := n.tool(t, "ipvsadm", "-Sn"); is != before {
				return fmt.Errorf("after ipvsadm %s: %s", flush, is)
			}
			return nil
		}))
		t.Logf("back %v after ipvsadm %s", time.Since(began).Round(time.Millisecond), flush)
	}
}
