// Package fake is a kernel in memory, as strict as Linux: it refuses what
// Linux refuses, with the same errors, and so it tells a wrong plan from a
// right one in microseconds. kerneltest holds it to the real kernel.
//
// It interprets ops, it does not record them. It balances no traffic.
package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/kernel/verify"
)

// ErrFull is what adding to a set at its capacity gives.
var ErrFull = errors.New("set is full")

// Kernel is a kernel in memory. Its methods may be called from several
// goroutines. Make one with New.
type Kernel struct {
	mu sync.Mutex

	sysctls  map[string]string
	saved    map[string]kernel.Saved
	timeouts kernel.Timeouts
	sets     map[string]*set
	chains   map[chainKey]string
	links    map[string]string
	virtuals map[kernel.VirtualKey]kernel.Virtual
	reals    map[kernel.RealKey]kernel.Real
	conns    map[kernel.RealKey]kernel.Conns
	addrs    map[kernel.Addr]bool
	routes   map[kernel.Route]bool
	neighs   map[kernel.Neighbor]bool

	names    kernel.Names
	node     kernel.Node
	firewall []kernel.Barrier

	// Schedulers that the kernel has; others are ENOENT. Nil means all.
	Schedulers map[string]bool
	// Fail, if set, is asked before each op; its error is the op's.
	Fail func(kernel.Op) error
	// After, if set, is called with each op that was carried out.
	After func(kernel.Op)
	// Now is the clock of readings.
	Now func() time.Time

	reads, writes int
	shards        []verify.Shard // checked
	activity      atomic.Uint64  // ops tried
	done, of      atomic.Int64
}

type set struct {
	kernel.Set
	entries map[kernel.Entry]bool
}

type chainKey struct {
	family      kernel.Family
	table, name string
}

// New makes a kernel that holds what state says. Names say which of its sets
// and chains a reading shows.
func New(names kernel.Names, node kernel.Node, state kernel.State) *Kernel {
	k := &Kernel{
		sysctls: map[string]string{}, saved: map[string]kernel.Saved{},
		timeouts: state.Timeouts.Over(kernel.LinuxTimeouts),
		sets:     map[string]*set{}, chains: map[chainKey]string{}, links: map[string]string{},
		virtuals: map[kernel.VirtualKey]kernel.Virtual{}, reals: map[kernel.RealKey]kernel.Real{},
		conns: map[kernel.RealKey]kernel.Conns{}, addrs: map[kernel.Addr]bool{},
		routes: map[kernel.Route]bool{}, neighs: map[kernel.Neighbor]bool{},
		names: names, node: node, Now: time.Now,
	}
	for _, s := range state.Sysctls {
		k.sysctls[s.Name] = s.Value
	}
	for _, s := range state.Sets {
		k.sets[s.Name] = &set{Set: s, entries: map[kernel.Entry]bool{}}
	}
	for _, e := range state.Entries {
		k.sets[e.Set].entries[e] = true
	}
	for _, c := range state.Chains {
		k.chains[chainKey{c.Family, c.Table, c.Name}] = c.Rules
	}
	for _, l := range state.Links {
		k.links[l.Name] = l.Type
	}
	for _, v := range state.Virtuals {
		k.virtuals[v.Key] = v
	}
	for _, r := range state.Reals {
		k.reals[r.Key] = r
	}
	for _, a := range state.Addrs {
		k.addrs[a] = true
	}
	for _, r := range state.Routes {
		k.routes[r] = true
	}
	for _, n := range state.Neighbors {
		k.neighs[n] = true
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

// SetFirewall changes what a reading shows of other people's firewall.
func (k *Kernel) SetFirewall(f []kernel.Barrier) {
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

// Read shows everything of our names, and all of IPVS.
func (k *Kernel) Read(ctx context.Context) (kernel.Observed, error) {
	if err := ctx.Err(); err != nil {
		return kernel.Observed{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	return k.read(), nil
}

// Verify says whether a shard is as known, connections apart.
func (k *Kernel) Verify(ctx context.Context, known *kernel.Observed, shard verify.Shard) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shards = append(k.shards, shard)
	now := k.read()
	return shard.Same(known, &now), nil
}

// Glance says whether there are as many virtual and real servers as known.
func (k *Kernel) Glance(known *kernel.Observed) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.virtuals) == len(known.Virtuals) && len(k.reals) == len(known.Reals), nil
}

// Progress counts the ops that were tried, and those of the plan that is applied.
func (k *Kernel) Progress() kernel.Progress {
	return kernel.Progress{Activity: k.activity.Load(), Done: int(k.done.Load()), Of: int(k.of.Load())}
}

func (k *Kernel) read() kernel.Observed {
	o := k.everything()
	o.Names = k.names
	plan.KeepOwned(&o)
	o.Conns = make([]kernel.Conns, len(o.Reals))
	for i, r := range o.Reals {
		o.Conns[i] = k.conns[r.Key]
	}
	o.Saved = slices.SortedFunc(maps.Values(k.saved), func(a, b kernel.Saved) int { return strings.Compare(a.Name, b.Name) })
	o.Node, o.Clock, o.Fresh, o.Firewall = k.node, k.Now(), true, k.firewall
	return o
}

// Shards gives the shards that Verify was asked about, since Forget.
func (k *Kernel) Shards() []verify.Shard {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.shards)
}

// Forget begins the list of Shards anew.
func (k *Kernel) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shards = nil
}

// State shows everything, foreign objects too.
func (k *Kernel) State() kernel.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.everything().State
}

func (k *Kernel) everything() kernel.Observed {
	var o kernel.Observed
	for name, v := range k.sysctls {
		o.Sysctls = append(o.Sysctls, kernel.Sysctl{Name: name, Value: v})
	}
	for _, s := range k.sets {
		o.Sets = append(o.Sets, s.Set)
		for e := range s.entries {
			o.Entries = append(o.Entries, e)
		}
	}
	for c, rules := range k.chains {
		o.Chains = append(o.Chains, kernel.Chain{Family: c.family, Table: c.table, Name: c.name, Rules: rules})
	}
	for name, t := range k.links {
		o.Links = append(o.Links, kernel.Link{Name: name, Type: t})
	}
	for _, v := range k.virtuals {
		o.Virtuals = append(o.Virtuals, v)
	}
	for _, r := range k.reals {
		o.Reals = append(o.Reals, r)
	}
	for a := range k.addrs {
		o.Addrs = append(o.Addrs, a)
	}
	for r := range k.routes {
		o.Routes = append(o.Routes, r)
	}
	for n := range k.neighs {
		o.Neighbors = append(o.Neighbors, n)
	}
	o.Timeouts = k.timeouts
	o.Sort()
	return o
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
	return plan.Carry(p, k.names, oneRestore, func(ops []kernel.Op) []error {
		defer k.activity.Add(1)
		defer k.done.Add(int64(len(ops)))
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
	var err error
	switch v := o.Object.(type) {
	case kernel.Sysctl:
		k.sysctl(v)
	case kernel.Set:
		err = k.set(o.Verb, v)
	case kernel.Entry:
		err = k.entry(o.Verb, v)
	case kernel.Swap:
		err = k.swap(v)
	case kernel.Link:
		err = k.link(o.Verb, v)
	case kernel.Virtual:
		err = k.virtual(o.Verb, v)
	case kernel.Real:
		err = k.real(o.Verb, v)
	case kernel.Addr:
		err = k.addr(o.Verb, v)
	case kernel.Route:
		err = toggle(k.routes, o.Verb, v, syscall.ESRCH)
	case kernel.Neighbor:
		err = toggle(k.neighs, o.Verb, v, syscall.ENOENT)
	case kernel.Timeouts:
		err = k.setTimeouts(o.Verb, v)
	case kernel.Flow:
		// It balances no traffic, so there is nothing tracked.
	default:
		err = fmt.Errorf("%T: %w", v, syscall.EOPNOTSUPP)
	}
	if err == nil && k.After != nil {
		k.After(o)
	}
	return err
}
