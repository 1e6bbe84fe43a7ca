package host

import (
	"context"
	"errors"

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

// Gates reads the base chains of other programs with rules that drop single packets.
func Gates(ctx context.Context, n kernel.Names) ([]kernel.Gate, error) {
	tables, err := iptables.Open(ctx, iptables.Options{})
	if err != nil {
		return nil, err
	}
	defer tables.Close()
	return tables.Gates(ctx, n)
}

// LegacyFirewall reads the base chains of legacy tables beside iptables-nft, which a reading of
// the kernel does not have: see iptables.Tables.Beside.
func LegacyFirewall(ctx context.Context, n kernel.Names) ([]kernel.Barrier, error) {
	tables, err := iptables.Open(ctx, iptables.Options{})
	if missing := (*kernel.MissingError)(nil); errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer tables.Close()
	return tables.Beside(ctx, n)
}
