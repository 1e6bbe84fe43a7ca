package traffic

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// The kernel is told how soon it may end svcproxy when memory is short, at the
// start and when the configuration changes.
func TestOOMScoreAdj(t *testing.T) {
	n := newLonelyNode(t, "oomScoreAdj = -500")
	n.start(t, web)
	score := func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", n.Pid()))
		must(t, err)
		return strings.TrimSpace(string(text))
	}
	if strings.Contains(n.Log.String(), "cannot set oomScoreAdj") {
		t.Skip("this machine's root may not set it")
	}
	if is := score(); is != "-500" {
		t.Errorf("oom_score_adj is %s, want -500", is)
	}
	mark := n.Log.Len()
	must(t, n.Configure("oomScoreAdj = 10"))
	_, err := n.Wait(mark, "key=oomScoreAdj")
	must(t, err)
	must(t, lab.Eventually(patience, func() error {
		if is := score(); is != "10" {
			return fmt.Errorf("oom_score_adj is %s, want 10", is)
		}
		return nil
	}))
}

// Every line is one JSON object for machines, from the start on.
func TestLogFormat(t *testing.T) {
	n := newLonelyNode(t, `logging.format = "json"`)
	must(t, n.Serve(web))
	must(t, n.Start())
	_, err := n.Wait(0, `"msg":"synced"`)
	must(t, err)
	must(t, n.Stop())
	for line := range strings.Lines(n.Log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil || fields["msg"] == nil || fields["level"] == nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// --init-only sets what needs the most rights, the kernel parameters, and nothing else. cleanup puts them back.
func TestInitOnly(t *testing.T) {
	notUserspace(t)
	n := newLonelyNode(t, "")
	n.tool(t, "sysctl", "-qw", "net.ipv4.ip_forward=0")
	before := n.read(t)
	must(t, n.Serve(web))
	forwards := func() string { return strings.TrimSpace(n.tool(t, "sysctl", "-n", "net.ipv4.ip_forward")) }
	out, code, err := n.Command("run", "--init-only=true")
	if err != nil || code != 0 || forwards() != "1" {
		t.Errorf("run --init-only: exit code %d, %v, ip_forward is %s\n%s", code, err, forwards(), out)
	}
	if diff := lab.Diff(before, n.read(t)); strings.Contains(diff, "KUBE-") || strings.Contains(diff, "10.96.0.20") {
		t.Errorf("run --init-only changed the kernel:\n%s", head(diff))
	}
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 || forwards() != "0" {
		t.Errorf("cleanup: exit code %d, %v, ip_forward is %s\n%s", code, err, forwards(), out)
	}
}
