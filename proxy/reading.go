package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// reading is the last reading of the kernel, kept up to date by the ops applied since.
type reading struct {
	kernel Kernel
	have   kernel.Observed
	memory kernel.Memory // of the last plan
	// valid: have is the state of the kernel, unless another program changed it.
	valid bool
	// unrecorded: have was read since the virtual servers that we own were last
	// recorded.
	unrecorded bool
	// done is the kernel as the plans that were carried out left it; see plan.Repairs. asDone: have is like it.
	done          kernel.State
	asDone, begun bool
	// refused has the ops that failed when all of the kernel was read last.
	refused map[kernel.Op]bool
}

// reread reads all of the kernel.
func (m *reading) reread(ctx context.Context, r *Report) error {
	have, err := m.kernel.Read(ctx)
	if err != nil {
		m.valid = false
		return fmt.Errorf("reading the kernel: %w", err)
	}
	m.memory.Owned = plan.Owned(&m.have, m.memory.Owned)
	if have.Record.Left != nil {
		m.memory.Left = have.Record.Left
	}
	if m.asDone = !m.begun; m.asDone {
		m.done, m.begun = have.State, true // what was changed before is not known
	}
	m.have, m.valid, m.unrecorded = have, true, true
	r.Checked, r.Full = true, true
	return nil
}

// verify compares a shard of the kernel with the reading. If they differ it reads all
// of the kernel, so that no plan mixes new and old readings.
func (m *reading) verify(ctx context.Context, shard plan.Shard, r *Report) error {
	same, err := m.kernel.Verify(ctx, &m.have, shard)
	if err != nil {
		m.valid = false
		return fmt.Errorf("checking the kernel: %w", err)
	}
	r.Checked, r.Full, r.Differed = shard != (plan.Shard{}), shard == plan.Everything, !same
	if !same {
		return m.reread(ctx, r)
	}
	m.have.Fresh = false
	return nil
}

// quickCheck reports whether IPVS still looks like the reading. An error is a difference.
func (m *reading) quickCheck() bool {
	if !m.valid {
		return true // the next sync reads all of it anyway
	}
	same, err := m.kernel.QuickCheck(&m.have)
	return same && err == nil
}

// plan returns what Diff plans, and the memory after it. It counts the connections of draining real servers
// now, unless the reading is of this sync.
func (m *reading) plan(ctx context.Context, want kernel.State, now kernel.Now) (kernel.Plan, kernel.Memory, error) {
	todo, then := plan.Diff(want, m.have, m.memory, now)
	if m.have.Fresh || todo.Draining == 0 {
		return todo, then, nil
	}
	keys := make([]kernel.RealKey, len(todo.Drains))
	for i, d := range todo.Drains {
		keys[i] = d.Real
	}
	conns, err := m.kernel.Conns(ctx, keys)
	if err != nil {
		m.valid = false
		err = fmt.Errorf("counting the connections of %d draining real servers: %w", len(keys), err)
		return kernel.Plan{}, m.memory, err
	}
	m.have.SetConns(keys, conns)
	// Diff needs the connections of no other real servers.
	m.have.Fresh = true
	todo, then = plan.Diff(want, m.have, m.memory, now)
	m.have.Fresh = false
	return todo, then, nil
}

// apply applies a plan and brings the reading up to date. It returns the ops that
// succeeded. then is the memory after the plan. full: all of the kernel was read for the plan.
func (m *reading) apply(
	ctx context.Context, want kernel.State, todo kernel.Plan, then kernel.Memory, full bool,
) (made []kernel.Op, err error) {
	if !todo.Empty() {
		err = m.kernel.Apply(ctx, todo)
	}
	made = kernel.Done(todo.Ops, err)
	m.memory = plan.After(m.memory, then, todo, err)
	if err != nil {
		m.valid = m.follow(made) && m.explains(err, full)
		return made, err
	}
	m.refused = nil
	if want.Policy.More {
		m.valid = m.follow(made)
		return made, nil
	}
	m.have, m.valid = plan.Applied(m.have, want, todo)
	m.done, m.asDone = m.have.State, true
	return made, nil
}

// follow brings what is known up to date after ops of a plan that was not carried out whole. It reports whether the
// reading is still right.
func (m *reading) follow(made []kernel.Op) (right bool) {
	m.have, right = plan.Advance(m.have, made)
	if m.asDone {
		m.done = m.have.State
	} else {
		m.done = plan.Follow(m.done, made)
	}
	return right
}

// repairs returns the ops that undo what another program changed.
func (m *reading) repairs(ops []kernel.Op) []kernel.Op {
	if m.asDone {
		return nil
	}
	return plan.Repairs(m.done, m.have.State, ops)
}

// applyUnread applies a plan of plan.Unread, and returns the ops that succeeded. The next sync reads all of the kernel.
func (m *reading) applyUnread(ctx context.Context, todo kernel.Plan) (made []kernel.Op, err error) {
	if !todo.Empty() {
		err = m.kernel.Apply(ctx, todo)
		made = kernel.Done(todo.Ops, err)
		m.follow(made)
	}
	m.memory.Drains, m.valid = todo.Drains, false
	return made, err
}

// explains reports whether the reading is right although ops failed: the same ops failed after the last reading of the
// whole kernel, too. A second failure shows that they change nothing. A first one may: after it refused mh, IPVS has a
// new virtual server with scheduler rr. Otherwise a service that the kernel refuses for long would make each change of
// another one read the whole kernel. full: all of the kernel was read for the plan.
func (m *reading) explains(err error, full bool) bool {
	var failed *kernel.ApplyError
	if !errors.As(err, &failed) {
		return false
	}
	known, refused := true, map[kernel.Op]bool{}
	for _, f := range failed.Failed {
		if !errors.Is(f.Err, plan.ErrSkipped) {
			refused[f.Op] = true
			known = known && m.refused[f.Op] && !errors.Is(f.Err, kernel.ErrUnknownOutcome)
		}
	}
	if full {
		m.refused = refused
	}
	return known
}

// ownsAny reports whether the kernel has any object of ours.
func (m *reading) ownsAny() bool {
	h := &m.have
	return len(h.Sets)+len(h.Chains)+len(h.Addrs)+len(h.Routes)+len(h.Announcements)+len(plan.Owned(h, nil)) > 0
}

// occupied returns the names of the sets that have entries.
func (m *reading) occupied() []string {
	var names []string
	for _, run := range m.have.Entries.Runs() {
		names = append(names, run[0].Set)
	}
	return slices.Compact(names)
}
