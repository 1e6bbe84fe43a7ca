package file

import "sync/atomic"

// progress counts the files of a reading.
type progress struct{ done, of atomic.Int64 }

func (p *progress) set(done, of int) {
	p.of.Store(int64(of))
	p.done.Store(int64(done))
}

func (p *progress) get() (done, of int) { return int(p.done.Load()), int(p.of.Load()) }

// notices are lines that one goroutine writes and others read.
type notices struct{ lines atomic.Pointer[[]string] }

// Store replaces them.
func (n *notices) Store(lines []string) { n.lines.Store(&lines) }

// Load gives the last ones.
func (n *notices) Load() []string {
	if lines := n.lines.Load(); lines != nil {
		return *lines
	}
	return nil
}
