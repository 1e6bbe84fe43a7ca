package host

import (
	"context"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/iptables"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// refused are the errors of ops on a part that this machine lacks.
func refused(ops []kernel.Op, what string) []error {
	errs := make([]error, len(ops))
	for i := range errs {
		errs[i] = &kernel.MissingError{What: "this machine has no " + what}
	}
	return errs
}

// noBalancer stands for IPVS on a machine without.
type noBalancer struct{}

func (noBalancer) Read() (ipvs.Reading, error) { return ipvs.Reading{}, nil }
func (noBalancer) Reals([]kernel.VirtualKey) ([]kernel.Real, []kernel.Conns, error) {
	return nil, nil, nil
}
func (noBalancer) VerifyVirtuals(*kernel.State) (bool, error) { return true, nil }
func (noBalancer) VerifyReals(*kernel.State, func(kernel.VirtualKey) bool) (bool, error) {
	return true, nil
}
func (noBalancer) QuickCheck(*kernel.State) (bool, error) { return true, nil }
func (noBalancer) Timeouts() (kernel.Timeouts, error)     { return kernel.Timeouts{}, nil }
func (noBalancer) SetTimeouts(kernel.Timeouts) error {
	return &kernel.MissingError{What: "this machine has no IPVS"}
}
func (noBalancer) SyncDaemons() ([]kernel.SyncDaemon, error) { return nil, nil }
func (noBalancer) StartSync(kernel.SyncDaemon) error {
	return &kernel.MissingError{What: "this machine has no IPVS"}
}
func (noBalancer) StopSync(kernel.SyncRole) error {
	return &kernel.MissingError{What: "this machine has no IPVS"}
}
func (noBalancer) Scheduler(string) error        { return nil }
func (noBalancer) Apply(ops []kernel.Op) []error { return refused(ops, "IPVS") }
func (noBalancer) Stats() ipvs.Stats             { return ipvs.Stats{} }
func (noBalancer) Close() error                  { return nil }

// noSets stands for ipset on a machine without.
type noSets struct{}

func (noSets) Read(kernel.Names) ([]kernel.Set, kernel.Entries, error) {
	return nil, kernel.Entries{}, nil
}
func (noSets) Verify(kernel.Names, *kernel.State, func(string) bool) (bool, error) {
	return true, nil
}
func (noSets) Apply(ops []kernel.Op) []error { return refused(ops, "ipset") }
func (noSets) Stats() nl.Stats               { return nl.Stats{} }
func (noSets) Close() error                  { return nil }

// noTables stands for iptables on a machine without.
type noTables struct{}

func (noTables) Read(context.Context, kernel.Names) ([]kernel.Chain, error) { return nil, nil }
func (noTables) Try(context.Context, []kernel.Chain) error {
	return &kernel.MissingError{What: "this machine has no iptables"}
}
func (noTables) Firewall(kernel.Names) ([]kernel.BaseChain, error)                 { return nil, nil }
func (noTables) Hidden() []string                                                  { return nil }
func (noTables) Apply(_ context.Context, ops []kernel.Op) []error                  { return refused(ops, "iptables") }
func (noTables) Others(context.Context, kernel.Names) ([]kernel.OtherChain, error) { return nil, nil }
func (noTables) ApplyOthers(_ context.Context, ops []kernel.Op) []error {
	return refused(ops, "iptables")
}
func (noTables) Tools() []iptables.Tool                     { return nil }
func (noTables) Subscribe() (*iptables.Subscription, error) { return nil, nil }
func (noTables) Hold() error                                { return nil }
func (noTables) Stats() iptables.Stats                      { return iptables.Stats{} }
func (noTables) Close() error                               { return nil }

// noFlows stands for connection tracking on a machine without.
type noFlows struct{}

func (noFlows) Apply(ops []kernel.Op) []error    { return refused(ops, "connection tracking") }
func (noFlows) Stats() nl.Stats                  { return nl.Stats{} }
func (noFlows) Deleted(kernel.Family) uint64     { return 0 }
func (noFlows) Took(kernel.Family) time.Duration { return 0 }
func (noFlows) Close() error                     { return nil }

// noCounters stands for the counters of IPVS on a machine without.
type noCounters struct{}

func (noCounters) Read() (kernel.Counters, error)                          { return kernel.Counters{}, nil }
func (noCounters) Virtuals() ([]kernel.VirtualCounters, error)             { return nil, nil }
func (noCounters) Reals([]kernel.VirtualKey) ([]kernel.RealTraffic, error) { return nil, nil }
func (noCounters) Stats() ipvs.Stats                                       { return ipvs.Stats{} }
func (noCounters) Close() error                                            { return nil }
