package relay

import (
	"context"
	"os"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// joined is a fake kernel whose virtual and real servers are a relay's, as kernel/host would have
// it: the contract is one for all kinds.
type joined struct {
	*fake.Kernel
	relay *Relay
}

func (j joined) Read(ctx context.Context) (kernel.Observed, error) {
	o, err := j.Kernel.Read(ctx)
	all := j.relay.Read()
	o.Virtuals, o.Reals, o.Conns = all.Virtuals, kernel.RealsOf(all.Reals), all.Conns
	return o, err
}

func (j joined) Verify(ctx context.Context, known *kernel.Observed, shard plan.Shard) (bool, error) {
	rest := *known
	rest.Virtuals, rest.Reals, rest.Conns = nil, kernel.Reals{}, nil
	same, err := j.Kernel.Verify(ctx, &rest, shard)
	if shard.HasVirtuals() {
		same = same && j.relay.VerifyVirtuals(&known.State)
	}
	return same && j.relay.VerifyReals(&known.State, shard.HasReals), err
}

func (j joined) Apply(ctx context.Context, p kernel.Plan) error {
	ours := func(k kernel.Kind) bool { return kernel.Rows[k].Adapter == kernel.IPVSAdapter }
	together := func(a, b kernel.Kind) bool { return ours(a) && ours(b) }
	return plan.Carry(p, kernel.DefaultNames, together, func(ops []kernel.Op) []error {
		if ours(ops[0].Object.Kind()) {
			return j.relay.Apply(ops)
		}
		return []error{j.Kernel.Apply(ctx, kernel.Plan{Ops: ops})}
	})
}

func TestContract(t *testing.T) {
	kerneltest.Contract(t, kernel.DefaultNames, func(t testing.TB) kerneltest.Kernel {
		kerneltest.NewNamespace(t)
		// The scenarios listen on port 80, and whoever runs the tests may lack CAP_NET_BIND_SERVICE.
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		return joined{fake.New(kernel.DefaultNames, kernel.Node{}, kernel.State{}), newRelay(t, Options{})}
	}, "forwarding", "marks")
}
