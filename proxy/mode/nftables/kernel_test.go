package nftables

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nft"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/lab"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestTracerAgreesWithTheKernel sends what it traces: to each address, a port of each VIP that is not served, from a
// client, the node and an endpoint. Before that the kernel's reading must be the state.
func TestTracerAgreesWithTheKernel(t *testing.T) {
	kerneltest.Need(t, kerneltest.Root)
	l, err := lab.New()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	x := modetest.NewSent(t, l)
	config := modetest.Defaults()
	config.VIPBinding = "route"
	x.State = State(x.Fronts, config)
	tables := kernel.State{Sets: x.State.Sets, Entries: x.State.Entries, Chains: x.State.Chains}
	if err := l.Node.Do(func() error {
		table, err := nft.Open(nil, config.Names)
		if err != nil {
			return err
		}
		defer table.Close()
		todo := plan.Once(tables, kernel.Observed{Names: config.Names, Fresh: true})
		for i, err := range table.Apply(todo.Ops) {
			if err != nil {
				t.Errorf("%s: %v", todo.Ops[i], err)
			}
		}
		have := kernel.Observed{Names: config.Names, Fresh: true}
		if have.Sets, have.Entries, err = table.ReadSets(); err != nil {
			return err
		}
		if have.Chains, err = table.ReadChains(); err != nil {
			return err
		}
		if again := plan.Once(tables, have); len(again.Ops) > 0 {
			t.Errorf("what is left to do:\n%s", again)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	x.Bind()
	x.AskAll()
}
