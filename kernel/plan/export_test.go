package plan

// SetWaves changes the sizes of waves for a test, and returns what sets them back.
func SetWaves(least, ops int) (back func()) {
	l, o := leastWaved, waveOps
	leastWaved, waveOps = least, ops
	return func() { leastWaved, waveOps = l, o }
}
