package iptables

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestTracerAgreesWithTheKernel sends what it traces, with both back ends: to each address, a port
// of each VIP that is not served, from a client, the node and an endpoint.
func TestTracerAgreesWithTheKernel(t *testing.T) {
	kerneltest.Need(t, kerneltest.Root)
	for _, backend := range []string{"nft", "legacy"} {
		t.Run(backend, func(t *testing.T) {
			if _, err := exec.LookPath("ip6tables-" + backend + "-restore"); err != nil {
				t.Skip(err)
			}
			l, err := lab.New()
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			x := modetest.NewSent(t, l)
			config := modetest.Defaults()
			config.VIPBinding = "route"
			x.State = State(x.Fronts, config)
			for family, tool := range map[kernel.Family]string{kernel.IPv4: "iptables-", kernel.IPv6: "ip6tables-"} {
				chains := slices.DeleteFunc(slices.Clone(x.State.Chains), func(c kernel.Chain) bool { return c.Family != family })
				tool += backend + "-restore"
				if out, err := l.Node.Feed(kernel.State{Chains: chains}.String(), tool, "--noflush"); err != nil {
					t.Fatalf("%s: %v: %s", tool, err, out)
				}
			}
			x.Bind()
			x.AskAll()
		})
	}
}
