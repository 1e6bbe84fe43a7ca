package host

import (
	"context"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/iptables"
)

// Firewall reads all base chains with rules of other programs: see iptables.Tables.WholeFirewall. It writes nothing and
// needs root. With an error, what it returns may lack some.
func Firewall(ctx context.Context, n kernel.Names) ([]kernel.BaseChain, error) {
	tables, err := iptables.Open(ctx, iptables.Options{})
	if len(kernel.Missing(err)) > 0 { // the rules of nftables are there all the same
		tables, err = iptables.Open(ctx, iptables.Options{Unwritten: true})
	}
	if err != nil {
		return nil, err
	}
	defer tables.Close()
	return tables.WholeFirewall(ctx, n)
}
