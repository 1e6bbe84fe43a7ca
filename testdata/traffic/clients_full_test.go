package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A meter without room lets new clients in or refuses them, as whenFull says, and that is said once while it stands.
func TestFullMeter(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	n := newNode(t, "")
	for _, c := range []struct{ whenFull, said string }{
		{"open", "more have no limit"}, {"closed", "more get no connections"},
	} {
		text := strings.Replace(web, "[services.web]", "[services.web]\nlimits = { newConnections = \"1/h\", burst = 5, "+
			"perClient = true, reject = true, whenFull = \""+c.whenFull+"\" }", 1)
		if c.whenFull == "open" {
			n.start(t, text)
		} else {
			n.serve(t, text)
		}
		list := n.tool(t, "nft", "list", "table", "ip", "svcproxy-limits")
		meter := regexp.MustCompile(`KUBE-METER-\w+`).FindString(list)
		var b strings.Builder
		fmt.Fprintf(&b, "flush set ip svcproxy-limits %s\nadd element ip svcproxy-limits %s {\n", meter, meter)
		for i := range 1 << 16 {
			fmt.Fprintf(&b, "10.200.%d.%d timeout 1h,\n", i>>8, i&255)
		}
		b.WriteString("}\n")
		file := filepath.Join(t.TempDir(), "elements")
		must(t, os.WriteFile(file, []byte(b.String()), 0o644))
		n.tool(t, "nft", "-f", file)
		served := 0
		for range 10 {
			if _, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.20:80")); err == nil {
				served++
			}
		}
		if want := map[string]int{"open": 10}[c.whenFull]; served != want {
			t.Errorf("%s: %d of 10 connections are served, want %d", c.whenFull, served, want)
		}
		must(t, lab.Eventually(patience, func() error {
			if out, _, err := n.Command("status"); err != nil || !strings.Contains(out, c.said) {
				return fmt.Errorf("%q is not said: %v\n%s", c.said, err, out)
			}
			return nil
		}))
		out, _, err := n.Command("events")
		must(t, err)
		// The condition ends when no client has met the limit for 20 s (limitsRest of proxy/daemon). A slow machine
		// needs longer to fill the second meter, and then it begins anew.
		times := func(kind string) int {
			return len(regexp.MustCompile(" "+kind+" .*65536 clients").FindAllString(out, -1))
		}
		if begun, over := times("condition"), times("conditionOver"); begun != over+1 {
			t.Errorf("%s: the condition began %d times and was over %d times\n%s", c.whenFull, begun, over, out)
		}
	}
}
