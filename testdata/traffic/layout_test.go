package traffic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Another layout of the rules is one restore: no connection is lost when a reload changes it, nor when svcproxy
// starts on the rules of the other one.
func TestLayoutChangesUnderTraffic(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, `rules.layout = "kube-proxy"`)
	n.start(t, web)
	l := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80", "198.51.100.80:80"} {
		l.put(t, n.Client, to)
	}
	l.put(t, n.Lab.Node, "10.96.0.20:80")
	l.goOn(t, 100)
	for i, layout := range []string{"lean", "kube-proxy", "lean", "kube-proxy"} {
		mark, main := n.Log.Len(), fmt.Sprintf("rules.layout = %q", layout)
		if i < 2 {
			must(t, n.Configure(main))
		} else {
			n.restart(t, main)
		}
		n.synced(t, mark)
		rules := n.tool(t, "iptables-save", "-t", "filter")
		if is := strings.Contains(rules, "-A INPUT -m conntrack --ctstate NEW "); is != (layout == "lean") {
			t.Errorf("layout %s:\n%s", layout, rules)
		}
		l.goOn(t, 100)
	}
	l.wantServed(t)
}
