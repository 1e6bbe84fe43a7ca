package plan

import (
	"github.com/svcproxy/svcproxy/kernel"
)

// Cut makes about n shards of a state that is too small to need them.
func Cut(s *kernel.State, n int) []Shard {
	total := 0
	for _, cost := range pieces(s) {
		total += cost
	}
	return cut(s, total/n)
}

// Last reports whether a shard holds the end of the kernel.
func (s Shard) Last() bool { return s.to == Everything.to }
