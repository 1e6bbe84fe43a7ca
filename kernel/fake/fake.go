// Package fake is a kernel in memory, as strict as Linux: it refuses what Linux
// refuses, with the same errors. So a test finds a wrong plan in microseconds. Package
// kerneltest has the contract that it and the real kernel fulfil.
//
// It interprets ops and does not record them. It forwards no traffic.
package fake

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// ErrFull is the error of adding to a set at its capacity.
var ErrFull = errors.New("set is full")

// Kernel is a kernel in memory. Its methods may be called from several
// goroutines. Make one with New.
type Kernel struct {
	mu sync.Mutex

	state kernel.State // owned and foreign objects
	saved map[string]kernel.Saved
	conns map[kernel.RealKey]kernel.Conns

	names    kernel.Names
	node     kernel.Node
	firewall []kernel.BaseChain

	// Schedulers that the kernel has; others are ENOENT. Nil means all.
	Schedulers map[string]bool
	// Fail, if set, is asked before each op; its error is the op's.
	Fail func(kernel.Op) error
	// Atomic: neighbouring ops on sets, entries and chains are one transaction, as with kernel/nft.
	Atomic bool
	// After, if set, is called with each op that was carried out.
	After func(kernel.Op)

	reads, writes int
	shards        []plan.Shard  // that Verify was asked about
	activity      atomic.Uint64 // ops tried
	done, of      atomic.Int64
}

// New makes a kernel that holds a state. A reading shows the objects that names
// own, and all virtual servers.
func New(names kernel.Names, node kernel.Node, state kernel.State) *Kernel {
	k := &Kernel{
		state: state.Clone(), saved: map[string]kernel.Saved{}, conns: map[kernel.RealKey]kernel.Conns{},
		names: names, node: node,
	}
	k.state.Policy = kernel.Policy{}
	k.state.Timeouts = state.Timeouts.Over(kernel.LinuxTimeouts)
	k.state.Sort()
	for i := range k.state.Sysctls {
		s := &k.state.Sysctls[i]
		*s = kernel.Sysctl{Name: s.Name, Value: s.Value}
	}
	return k
}

// SetConns sets the connections that a reading shows for a real server.
func (k *Kernel) SetConns(r kernel.RealKey, c kernel.Conns) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns[r] = c
}

// SetNode changes what a reading shows of the node.
func (k *Kernel) SetNode(n kernel.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.node = n
}

// SetFirewall changes the firewall of other programs that a reading shows.
func (k *Kernel) SetFirewall(f []kernel.BaseChain) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.firewall = f
}

// Counts gives how many readings were made and how many ops carried out.
func (k *Kernel) Counts() (reads, writes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reads, k.writes
}

// Read shows the owned objects, and all virtual servers.
func (k *Kernel) Read(ctx context.Context) (kernel.Observed, error) {
	if err := ctx.Err(); err != nil {
		return kernel.Observed{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	return k.read(), nil
}

// Verify reports whether a shard is as known, connections apart.
func (k *Kernel) Verify(ctx context.Context, known *kernel.Observed, shard plan.Shard) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shards = append(k.shards, shard)
	now := k.read()
	return shard.Same(known, &now), nil
}

// QuickCheck reports whether there are as many virtual and real servers as known.
func (k *Kernel) QuickCheck(known *kernel.Observed) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.state.Virtuals) == len(known.Virtuals) && k.state.Reals.Len() == known.Reals.Len(), nil
}

// Progress counts the ops that were tried, and those of the plan that is applied.
func (k *Kernel) Progress() kernel.Progress {
	return kernel.Progress{Activity: k.activity.Load(), Done: int(k.done.Load()), Of: int(k.of.Load())}
}

func (k *Kernel) read() kernel.Observed {
	o := kernel.Observed{State: k.state.Clone(), Names: k.names}
	plan.KeepOwned(&o)
	o.Conns = make([]kernel.Conns, o.Reals.Len())
	for i, r := range o.Reals.All() {
		o.Conns[i] = k.conns[r.Key]
	}
	o.Saved = slices.SortedFunc(maps.Values(k.saved), func(a, b kernel.Saved) int { return strings.Compare(a.Name, b.Name) })
	o.Node, o.Fresh, o.Firewall = k.node, true, k.firewall
	return o
}

// Shards gives the shards that Verify was asked about, since Forget.
func (k *Kernel) Shards() []plan.Shard {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.shards)
}

// Forget empties the list of Shards.
func (k *Kernel) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shards = nil
}

// State shows everything, foreign objects too.
func (k *Kernel) State() kernel.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state.Clone()
}

// Conns shows the connections of some real servers.
func (k *Kernel) Conns(_ context.Context, reals []kernel.RealKey) ([]kernel.Conns, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	conns := make([]kernel.Conns, len(reals))
	for i, r := range reals {
		conns[i] = k.conns[r]
	}
	return conns, nil
}

// Apply carries the plan out, going on past errors. Neighbouring ops on chains
// are one transaction, as with iptables-restore.
func (k *Kernel) Apply(ctx context.Context, p kernel.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done.Store(0)
	k.of.Store(int64(len(p.Ops)))
	defer k.of.Store(0)
	together := oneRestore
	if k.Atomic {
		together = oneTransaction
	}
	return plan.Carry(p, k.names, together, func(ops []kernel.Op) []error {
		defer k.activity.Add(1)
		defer k.done.Add(int64(len(ops)))
		if k.Atomic && inTransaction(ops[0].Object.Kind()) {
			return k.transact(ops)
		}
		if ops[0].Object.Kind() == kernel.KindChain {
			return k.restore(ops)
		}
		return []error{k.do(ops[0])}
	})
}

func oneRestore(a, b kernel.Kind) bool { return a == kernel.KindChain && b == kernel.KindChain }

func (k *Kernel) do(o kernel.Op) error {
	if k.Fail != nil {
		if err := k.Fail(o); err != nil {
			return err
		}
	}
	k.writes++
	apply := k.place
	if own := own[o.Object.Kind()]; own != nil {
		apply = func(o kernel.Op) error { return own(k, o) }
	}
	err := apply(o)
	if err == nil && k.After != nil {
		k.After(o)
	}
	return err
}
