package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// An endpoint that answers no client is said as long as clients ask. Clients that do not go on with what an endpoint
// answered, as scanners of ports, are not.
func TestSilentEndpointsAreSaid(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	n := newNode(t, "")
	n.start(t, clusterIP("web", "10.96.0.20", `["10.2.1.10"]`)+clusterIP("scanned", "10.96.0.21", `["10.2.2.10"]`))
	wantAnswers := []string{"10.96.0.20:80", "10.96.0.21:80"}
	for _, to := range wantAnswers {
		ask(t, n.Client, "tcp", to)
	}
	rule := func(host *lab.Host, words string) {
		_, err := host.Run("iptables", append([]string{"-w"}, strings.Fields(words)...)...)
		must(t, err)
	}
	drops := fmt.Sprintf("INPUT -p tcp --dport %d -j DROP", lab.LinePort)
	rule(n.Backends[0].Host, "-I "+drops)
	rule(n.Client, "-I INPUT -p tcp -s 10.96.0.21 -j DROP")
	stop := make(chan struct{})
	defer close(stop)
	for _, to := range wantAnswers {
		for range 5 {
			go n.knock(netip.MustParseAddrPort(to), stop)
		}
	}
	n.stands(t, "silent", true)
	st := n.status(t)
	for _, c := range st.Conditions {
		if c.Kind == "silent" && !strings.HasPrefix(c.Subject, "web: endpoint 10.2.1.10:") {
			t.Errorf("%+v", c)
		}
	}
	if out, code := n.asks(t, "status"); code != 7 || !strings.Contains(out, "it does not answer") {
		t.Errorf("status ends with %d:\n%s", code, out)
	}
	rule(n.Backends[0].Host, "-D "+drops)
	n.stands(t, "silent", false)
}
