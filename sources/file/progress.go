package file

import "sync/atomic"

// progress counts the files of the present reading, or of the last one.
type progress struct{ done, of atomic.Int64 }

func (p *progress) set(done, of int) {
	p.of.Store(int64(of))
	p.done.Store(int64(done))
}

func (p *progress) get() (done, of int) { return int(p.done.Load()), int(p.of.Load()) }
