package host

import (
	"sync/atomic"

	"github.com/svcproxy/svcproxy/kernel"
)

// Progress says how far a call has come. Any goroutine may call it at any time.
func (k *Kernel) Progress() kernel.Progress {
	var p kernel.Progress
	stats := k.Stats()
	for _, n := range stats.Netlink.All() {
		p.Activity += n.Sends + n.Receives
	}
	p.Activity += stats.Readers + stats.Writers + k.tables.Stats().Activity + k.ipvs.Stats().Getsockopts
	p.Done, p.Of = k.applied.now()
	return p
}

// applied counts the ops of a plan while it is carried out.
type applied struct {
	of, done atomic.Int64
	current  atomic.Pointer[stretch]
}

// stretch is the run of ops that one adapter carries out now.
type stretch struct {
	steps    int
	messages func() uint64 // sent by the adapter, one for each op; nil if it does not count
	began    uint64
}

func (a *applied) begin(steps int) (end func()) {
	a.done.Store(0)
	a.of.Store(int64(steps))
	return func() { a.of.Store(0) }
}

func (a *applied) run(steps int, messages func() uint64) (end func()) {
	s := &stretch{steps: steps, messages: messages}
	if messages != nil {
		s.began = messages()
	}
	a.current.Store(s)
	return func() {
		a.current.Store(nil)
		a.done.Add(int64(steps))
	}
}

func (a *applied) now() (done, of int) {
	done, of = int(a.done.Load()), int(a.of.Load())
	if s := a.current.Load(); s != nil && s.messages != nil {
		done += min(s.steps, int(s.messages()-s.began))
	}
	return min(done, of), of
}

// messages returns the count of messages of kernel/ipvs, which has the most to do and
// sends one for each op. It is nil for other adapters.
func (k *Kernel) messages(by kernel.Adapter) func() uint64 {
	if by != kernel.IPVSAdapter {
		return nil
	}
	return func() uint64 { return k.ipvs.Stats().Messages }
}

// QuickCheck reports whether IPVS still looks as known. It runs between verifications.
func (k *Kernel) QuickCheck(known *kernel.Observed) (bool, error) {
	return k.ipvs.QuickCheck(&known.State)
}
