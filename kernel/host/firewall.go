package host

import (
	"context"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/iptables"
)

// Firewall reads only the base chains of other programs that packets to VIPs pass. It
// writes nothing and needs root.
func Firewall(ctx context.Context, n kernel.Names) ([]kernel.Barrier, error) {
	tables, err := iptables.Open(ctx, iptables.Options{})
	if err != nil {
		return nil, err
	}
	defer tables.Close()
	if _, err := tables.Read(ctx, n); err != nil {
		return nil, err
	}
	return tables.Barriers()
}
