package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// An endpoint that answers no client is said as long as clients ask, and taken out where its service wants that, though
// its probes are answered. Clients that do not go on with what an endpoint answered, as scanners of ports, say nothing.
func TestSilentEndpointsAreSaid(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	n := newNode(t, "")
	const check = "healthCheck = { type = \"tcp\", passive = true }\n"
	n.start(t, clusterIP("web", "10.96.0.20", `["10.2.1.10"]`)+clusterIP("scanned", "10.96.0.21", `["10.2.2.10"]`)+
		clusterIP("passive", "10.96.0.22", `["10.2.1.10", "10.2.3.10"]`)+check)
	wantAnswers := []string{"10.96.0.20:80", "10.96.0.21:80", "10.96.0.22:80"}
	for _, to := range wantAnswers {
		ask(t, n.Client, "tcp", to)
	}
	rule := func(host *lab.Host, words string) {
		_, err := host.Run("iptables", append([]string{"-w"}, strings.Fields(words)...)...)
		must(t, err)
	}
	drops := fmt.Sprintf("INPUT -p tcp -s %s --dport %d -j DROP", n.Client.V4, lab.LinePort)
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
	for _, c := range n.status(t).Conditions {
		if c.Kind == "silent" && !strings.HasPrefix(c.Subject, "10.2.1.10:") {
			t.Errorf("%+v", c)
		}
	}
	n.says(t, 7, "status", "it does not answer")
	for _, c := range [][]string{
		{"replies do not come back through this node", "doctor"},
		{"it does not answer", "explain", "tcp", "10.96.0.20:80", "--from", n.Client.V4.String()},
	} {
		out, code, err := n.Command(c[1], c[2:]...)
		if must(t, err); code == 0 || !strings.Contains(out, c[0]) {
			t.Errorf("%s ends with %d:\n%s", c[1], code, out)
		}
	}
	must(t, lab.Eventually(patience, func() error {
		for range 10 {
			if a, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.22:80")); err != nil || a.Backend != "pod3" {
				return fmt.Errorf("%s answers: %v", a.Backend, err)
			}
		}
		return nil
	}))
	rule(n.Backends[0].Host, "-D "+drops)
	must(t, lab.Eventually(patience, func() error {
		_, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.20:80"))
		return err
	}))
}

// The relay sends clients to another endpoint after one that does not answer in time, and says which one that is.
func TestRelaySaysWhichEndpointIsSilent(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	n := newNode(t, "")
	n.start(t, clusterIP("web", "10.96.0.20", allV4))
	rule := fmt.Sprintf("INPUT -p tcp --dport %d -m state --state NEW -j DROP", lab.LinePort)
	_, err := n.Backends[0].Run("iptables", append([]string{"-w", "-I"}, strings.Fields(rule)...)...)
	must(t, err)
	web := netip.MustParseAddrPort("10.96.0.20:80")
	must(t, lab.Eventually(patience, func() error {
		if a, err := n.Client.Ask("tcp", web); err != nil || a.Backend == "pod1" {
			t.Fatalf("%s answers: %v", a.Backend, err)
		}
		for _, c := range n.status(t).Conditions {
			if c.Kind == "silent" && strings.HasPrefix(c.Subject, "10.2.1.10:") {
				return nil
			}
		}
		return fmt.Errorf("no condition says that 10.2.1.10 is silent")
	}))
	n.says(t, 7, "status", "10.2.1.10:7000: it does not answer clients of")
	_, err = n.Backends[0].Run("iptables", append([]string{"-w", "-D"}, strings.Fields(rule)...)...)
	must(t, err)
	must(t, lab.Eventually(patience, func() error {
		if a, err := n.Client.Ask("tcp", web); err != nil || a.Backend != "pod1" {
			return fmt.Errorf("%s answers: %v", a.Backend, err)
		}
		return nil
	}))
	n.stands(t, "silent", false)
}
