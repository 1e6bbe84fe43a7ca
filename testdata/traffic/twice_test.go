package traffic

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A problem is reported once in the log as long as it lasts, also across
// reloads, and once in each part of the status.
func TestNothingIsSaidTwice(t *testing.T) {
	n := newNode(t, "")
	n.tool(t, "ipvsadm", "-A", "-t", "10.96.0.77:80", "-s", "sed")
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "ip6tables-restore"), []byte("#!/bin/sh\necho broken on purpose >&2\nexit 1\n"), 0o755))
	must(t, n.Serve(web+clusterIP("taken", "10.96.0.77", allV4)))
	must(t, n.Start("env", "PATH="+bin+":"+os.Getenv("PATH")))
	_, err := n.Wait(0, "sync failed")
	must(t, err)
	must(t, n.Serve(web+clusterIP("taken", "10.96.0.77", allV4)+"[services.bad]\nprots = 80\n"))
	_, err = n.Wait(0, "msg=refused")
	must(t, err)
	for range 2 {
		out, _ := n.asks(t, "reload", "--wait")
		once(t, "reload --wait", out, `unknown key "prots"`, "10.96.0.77:80")
		must(t, exec.Command("kill", "-HUP", strconv.Itoa(n.Pid())).Run())
	}
	must(t, n.Configure("frob = 1"))
	_, err = n.Wait(0, "msg=refused source=static")
	must(t, err)
	once(t, "the log", n.Log.String(), `unknown key \"prots\"`, "10.96.0.77:80", "frob", "cluster IP without clusterCIDR")
	out, _ := n.asks(t, "status")
	once(t, "status", out, `unknown key "prots"`, "frob")
	once(t, "the log", n.Log.String(), "sync failed")
	if said := strings.Count(out, "broken on purpose"); said > 3 { // the tool's own fault, what needs it, and the service's state
		t.Errorf("status says %d times that a tool failed:\n%s", said, out)
	}
}

// once wants each text on one line.
func once(t *testing.T, where, lines string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		n := 0
		for line := range strings.Lines(lines) {
			if strings.Contains(line, text) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s has %q on %d lines", where, text, n)
		}
	}
}
