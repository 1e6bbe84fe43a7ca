package host

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/relay"
)

// relayed is the balancer of mode userspace: the relay of this process. Where the kernel has IPVS,
// its virtual servers are read, too: those of another mode would take the packets before they reach
// the relay's listeners. A change of such a virtual server moves it: the relay listens first, then
// IPVS loses it. Its connections end by that.
type relayed struct {
	relay *relay.Relay
	below balancer // IPVS, or noBalancer
	// left are the virtual servers of IPVS, as last read.
	left map[kernel.VirtualKey]bool
}

// withRelay puts the relay in front of IPVS.
func withRelay(r *relay.Relay, below balancer) balancer { return &relayed{relay: r, below: below} }

// Read lists the virtual servers of both. Under a key that both have it lists the relay's.
func (b *relayed) Read() (ipvs.Reading, error) {
	all, err := b.below.Read()
	if err != nil {
		return ipvs.Reading{}, err
	}
	b.left = make(map[kernel.VirtualKey]bool, len(all.Virtuals))
	for _, v := range all.Virtuals {
		b.left[v.Key] = true
	}
	ours := b.relay.Read()
	if len(b.left) == 0 {
		return ipvs.Reading{Virtuals: ours.Virtuals, Reals: ours.Reals, Conns: ours.Conns}, nil
	}
	r := ipvs.Reading{Virtuals: slices.Clone(ours.Virtuals)}
	for _, v := range all.Virtuals {
		if !b.relay.Has(v.Key) {
			r.Virtuals = append(r.Virtuals, v)
		}
	}
	kernel.SortFunc(r.Virtuals, kernel.Virtual.Compare)
	next := 0 // of the relay's
	for i, o := range all.Reals {
		if b.relay.Has(o.Key.Virtual) {
			continue
		}
		for ; next < len(ours.Reals) && ours.Reals[next].Key.Compare(o.Key) < 0; next++ {
			r.Reals, r.Conns = append(r.Reals, ours.Reals[next]), append(r.Conns, ours.Conns[next])
		}
		r.Reals, r.Conns = append(r.Reals, o), append(r.Conns, all.Conns[i])
	}
	r.Reals, r.Conns = append(r.Reals, ours.Reals[next:]...), append(r.Conns, ours.Conns[next:]...)
	return r, nil
}

// inIPVS lists the virtual servers that IPVS has, sorted.
func (b *relayed) inIPVS() []kernel.VirtualKey {
	var keys []kernel.VirtualKey
	for k := range b.left {
		keys = append(keys, k)
	}
	kernel.SortFunc(keys, kernel.VirtualKey.Compare)
	return keys
}

// Reals reads the real servers of some virtual servers, first those of the relay.
func (b *relayed) Reals(virtuals []kernel.VirtualKey) ([]kernel.Real, []kernel.Conns, error) {
	var ours, theirs []kernel.VirtualKey
	for _, k := range virtuals {
		if b.left[k] && !b.relay.Has(k) {
			theirs = append(theirs, k)
		} else {
			ours = append(ours, k)
		}
	}
	reals, conns := b.relay.Reals(ours)
	if theirs == nil {
		return reals, conns, nil
	}
	more, of, err := b.below.Reals(theirs)
	return append(reals, more...), append(conns, of...), err
}

// split returns what is known of the relay and of IPVS.
func (b *relayed) split(known *kernel.State) (ours, theirs *kernel.State) {
	theirs = &kernel.State{}
	if len(b.left) == 0 {
		return known, theirs
	}
	ours = &kernel.State{}
	of := func(k kernel.VirtualKey) *kernel.State {
		if b.left[k] {
			return theirs
		}
		return ours
	}
	for _, v := range known.Virtuals {
		s := of(v.Key)
		s.Virtuals = append(s.Virtuals, v)
	}
	ours.Reals = known.Reals.Where(func(r *kernel.Real) bool { return !b.left[r.Key.Virtual] })
	theirs.Reals = known.Reals.Where(func(r *kernel.Real) bool { return b.left[r.Key.Virtual] })
	return ours, theirs
}

func (b *relayed) VerifyVirtuals(known *kernel.State) (bool, error) {
	ours, theirs := b.split(known)
	if !b.relay.VerifyVirtuals(ours) {
		return false, nil
	}
	return b.below.VerifyVirtuals(theirs)
}

func (b *relayed) VerifyReals(known *kernel.State, has func(kernel.VirtualKey) bool) (bool, error) {
	ours, theirs := b.split(known)
	if !b.relay.VerifyReals(ours, has) {
		return false, nil
	}
	return b.below.VerifyReals(theirs, has)
}

// QuickCheck asks the relay alone.
func (b *relayed) QuickCheck(known *kernel.State) (bool, error) {
	ours, _ := b.split(known)
	return b.relay.QuickCheck(ours), nil
}

func (b *relayed) Timeouts() (kernel.Timeouts, error)  { return b.below.Timeouts() }
func (b *relayed) SetTimeouts(t kernel.Timeouts) error { return b.below.SetTimeouts(t) }
func (b *relayed) SyncDaemons() ([]kernel.SyncDaemon, error) {
	return b.below.SyncDaemons()
}
func (b *relayed) StartSync(d kernel.SyncDaemon) error { return b.below.StartSync(d) }
func (b *relayed) StopSync(r kernel.SyncRole) error    { return b.below.StopSync(r) }
func (b *relayed) Scheduler(string) error              { return nil }
func (b *relayed) Stats() ipvs.Stats                   { return b.below.Stats() }
func (b *relayed) Close() error                        { return b.below.Close() }

// Apply carries out ops on the relay, but for those on virtual servers that only IPVS has. A change of
// such a virtual server moves it to the relay.
func (b *relayed) Apply(ops []kernel.Op) []error {
	if len(b.left) == 0 {
		return b.relay.Apply(ops)
	}
	var all []step
	moved := map[kernel.VirtualKey]bool{} // by an earlier op
	for i, op := range ops {
		k, isVirtual := virtualOf(op.Object)
		switch there := b.left[k] && !b.relay.Has(k) && !moved[k]; {
		case !b.left[k]:
			all = append(all, step{op: op, of: i})
		case there && op.Verb == kernel.Remove:
			all = append(all, step{op: op, of: i, below: true})
		case !isVirtual:
			all = append(all, step{op: op, of: i})
		default:
			if there {
				moved[k] = true
				all = append(all, b.move(op, i)...)
			} else {
				all = append(all, step{op: op, of: i})
			}
			// The relay listens by then.
			all = append(all, step{op: kernel.Op{Verb: kernel.Remove, Object: op.Object, Was: op.Object}, of: i, below: true,
				last: true})
		}
	}
	return b.carry(all, len(ops))
}

// step is an op of the relay or of IPVS, for one of the ops of a call.
type step struct {
	op    kernel.Op
	of    int // index of that op
	below bool
	last  bool // after the relay's, if these succeeded
}

// carry carries out steps: first the relay's, whose listeners start when its call ends.
func (b *relayed) carry(all []step, n int) []error {
	var errs []error
	note := func(i int, err error) {
		if errs == nil {
			errs = make([]error, n)
		}
		if errs[i] == nil {
			errs[i] = err
		}
	}
	for _, below := range []bool{false, true} {
		var ops []kernel.Op
		var of []int
		for _, s := range all {
			if s.below == below && !(s.last && errs != nil && errs[s.of] != nil) {
				ops, of = append(ops, s.op), append(of, s.of)
			}
		}
		if ops == nil {
			continue
		}
		apply := b.relay.Apply
		if below {
			apply = b.below.Apply
		}
		results := apply(ops)
		for i, op := range ops {
			var err error
			if results != nil {
				err = results[i]
			}
			if err != nil {
				note(of[i], err)
			} else if k, isVirtual := virtualOf(op.Object); below && isVirtual {
				delete(b.left, k)
			}
		}
	}
	return errs
}

// move lets the relay serve a virtual server with the real servers that IPVS has: later ops change
// these.
func (b *relayed) move(op kernel.Op, of int) []step {
	v := op.Object.(kernel.Virtual)
	steps := []step{{op: kernel.Op{Verb: kernel.Add, Object: v}, of: of}}
	reals, _, err := b.below.Reals([]kernel.VirtualKey{v.Key})
	if err != nil {
		return steps // ops on real servers fail then, and the next reading shows why
	}
	for _, o := range reals {
		o.Forward, o.Tunnel, o.TunnelPort = kernel.Masquerade, 0, 0 // the relay has no other
		steps = append(steps, step{op: kernel.Op{Verb: kernel.Add, Object: o}, of: of})
	}
	return steps
}

func virtualOf(o kernel.Object) (k kernel.VirtualKey, isVirtual bool) {
	if r, ok := o.(kernel.Real); ok {
		return r.Key.Virtual, false
	}
	return o.(kernel.Virtual).Key, true
}

// relayCounters are the counters of a relay.
type relayCounters struct{ relay *relay.Relay }

func (c relayCounters) Read() (kernel.Counters, error) { return c.relay.Counters(), nil }
func (c relayCounters) Virtuals() ([]kernel.VirtualCounters, error) {
	return c.relay.Counters().Virtuals, nil
}
func (c relayCounters) Reals(virtuals []kernel.VirtualKey) ([]kernel.RealTraffic, error) {
	return c.relay.Traffic(virtuals), nil
}
func (relayCounters) Stats() ipvs.Stats { return ipvs.Stats{} }
func (relayCounters) Close() error      { return nil }
