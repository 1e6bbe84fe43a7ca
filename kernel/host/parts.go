package host

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/conntrack"
	"github.com/svcproxy/svcproxy/kernel/ipset"
	"github.com/svcproxy/svcproxy/kernel/iptables"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// balancer balances connections over real servers. It is kernel/ipvs, or kernel/relay, or absent.
type balancer interface {
	Read() (ipvs.Reading, error)
	Reals([]kernel.VirtualKey) ([]kernel.Real, []kernel.Conns, error)
	VerifyVirtuals(known *kernel.State) (bool, error)
	VerifyReals(known *kernel.State, has func(kernel.VirtualKey) bool) (bool, error)
	QuickCheck(known *kernel.State) (bool, error)
	Timeouts() (kernel.Timeouts, error)
	SetTimeouts(kernel.Timeouts) error
	SyncDaemons() ([]kernel.SyncDaemon, error)
	StartSync(kernel.SyncDaemon) error
	StopSync(kernel.SyncRole) error
	Scheduler(name string) error
	Apply([]kernel.Op) []error
	Stats() ipvs.Stats
	Close() error
}

// sets are kernel/ipset, or kernel/nft, or absent.
type sets interface {
	Read(kernel.Names) ([]kernel.Set, kernel.Entries, error)
	Verify(n kernel.Names, known *kernel.State, has func(set string) bool) (bool, error)
	Apply([]kernel.Op) []error
	Stats() nl.Stats
	Close() error
}

// tables are kernel/iptables, or kernel/nft, or absent.
type tables interface {
	Read(context.Context, kernel.Names) ([]kernel.Chain, error)
	Try(context.Context, []kernel.Chain) error
	Firewall(kernel.Names) ([]kernel.BaseChain, error)
	Hidden() []string
	Others(context.Context, kernel.Names) ([]kernel.OtherChain, error)
	Apply(context.Context, []kernel.Op) []error
	ApplyOthers(context.Context, []kernel.Op) []error
	Tools() []iptables.Tool
	Subscribe() (*iptables.Subscription, error)
	Hold() error
	Stats() iptables.Stats
	Close() error
}

// flows are kernel/conntrack, or absent.
type flows interface {
	Apply([]kernel.Op) []error
	Stats() nl.Stats
	Deleted(kernel.Family) uint64
	Took(kernel.Family) time.Duration
	Close() error
}

// needs reports whether a mode cannot do without an adapter.
func (o *Options) needs(a kernel.Adapter) bool {
	return o.Needs == nil || slices.Contains(o.Needs, a)
}

// openBalancer opens what balances: IPVS, with the relay in front of it if the mode has one. If the
// mode does not need IPVS, the kernel is not made to load it, and without it there are no virtual
// servers.
func openBalancer(o *Options) (balancer, error) {
	b, err := openIPVS(o)
	if err == nil && o.Relay != nil {
		b = withRelay(o.Relay, b)
	}
	return b, err
}

func openIPVS(o *Options) (balancer, error) {
	if !o.needs(kernel.IPVSAdapter) && !loaded() {
		return noBalancer{}, nil
	}
	t, err := ipvs.Open(o.Dialer)
	if err != nil {
		return optional[balancer](o, kernel.IPVSAdapter, noBalancer{}, err)
	}
	return t, nil
}

// loaded reports whether the kernel has IPVS now.
func loaded() bool {
	_, err := os.Stat("/proc/thread-self/net/ip_vs")
	return err == nil
}

// openSets opens ipset.
func openSets(o *Options) (sets, error) {
	s, err := ipset.Open(o.Dialer)
	if err == nil {
		if err = s.Available(); err == nil {
			return s, nil
		}
		s.Close()
	}
	return optional[sets](o, kernel.IPSetAdapter, noSets{}, err)
}

// openTables opens iptables, unless it is open already.
func openTables(ctx context.Context, o *Options) (tables, error) {
	if o.Tables != nil {
		return o.Tables, nil
	}
	t, err := iptables.Open(ctx, iptables.Options{Dialer: o.Dialer})
	if err != nil {
		return optional[tables](o, kernel.IPTablesAdapter, noTables{}, err)
	}
	return t, nil
}

// openFlows opens connection tracking.
func openFlows(o *Options) (flows, error) {
	t, err := conntrack.Open(o.Dialer)
	if err != nil {
		return optional[flows](o, kernel.ConntrackAdapter, noFlows{}, err)
	}
	return t, nil
}

// noDevice reports whether this machine lacks dummy devices, if the mode can do without. err is what the kernel said.
func noDevice(o *Options, err error) (bool, error) {
	var missing *kernel.MissingError
	if err == nil || o.needs(kernel.LinkAdapter) || !errors.As(err, &missing) {
		return false, err
	}
	return true, nil
}

// optional returns what stands for a part that this machine lacks, if the mode does not need it.
func optional[P any](o *Options, a kernel.Adapter, absent P, err error) (P, error) {
	var missing *kernel.MissingError
	if o.needs(a) || !errors.As(err, &missing) {
		var none P
		return none, err
	}
	return absent, nil
}
