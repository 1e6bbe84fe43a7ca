package traffic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// An endpoint that goes down, or comes up, costs four netlink calls among 1,000
// services, and no reading of the kernel.
func TestHealthOfOneEndpointCostsFourCalls(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	n := newCheckedNode(t, "ipvs.syncPeriod = \"1h\"")
	s := checkedService{name: "web", vip: "10.96.0.20", port: 7001, check: "{ type = \"tcp\", " + patient + " }"}
	port := n.openPorts(t, s.port, lines)[0]
	n.start(t, services(999, `["10.5.0.9"]`)+s.text())
	// A load that had to enlarge a set has the next sync read the kernel.
	n.serve(t, services(999, `["10.5.0.1"]`)+s.text())
	n.allUp(t, 3)
	for _, c := range []struct {
		name   string
		change func() error
		weight string
	}{{"down", port.Close, "0"}, {"up", port.Open, "1"}} {
		trace, err := n.TraceDuring(func() error {
			if err := c.change(); err != nil {
				return err
			}
			return lab.Eventually(patience, func() error {
				w, err := n.weightAlone(s.real(1))
				if err == nil && w != c.weight {
					err = fmt.Errorf("weight %s, want %s", w, c.weight)
				}
				return err
			})
		})
		must(t, err)
		calls := withoutQuickChecks(trace.Netlink())
		if len(calls) == 0 || len(calls) > 4 || len(calls.Dumps()) > 0 || len(trace.Execs()) > 0 {
			t.Errorf("an endpoint that goes %s: %d netlink calls, %d dumps, executed %q; want at most 4, none, none\n%s",
				c.name, len(calls), len(calls.Dumps()), trace.Execs(), calls)
		}
		t.Logf("an endpoint that goes %s: %d netlink calls", c.name, len(calls))
	}
}

// weightAlone reads the weight of one real server as ipvsadm prints it, without the
// others: reading all virtual servers would take the guest long.
func (n node) weightAlone(real lab.Real) (string, error) {
	out, err := n.Lab.Node.Run("ipvsadm", "-Ln", "-t", real.Virtual.String())
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 6 && f[1] == real.Addr.String() {
			return f[3], err
		}
	}
	return "", err
}
