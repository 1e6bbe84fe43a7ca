package plan

// SetWaves changes the sizes of waves, and how many real servers may go before them, for a test. It returns what sets them
// back.
func SetWaves(least, ops, few int) (back func()) {
	l, o, f := leastWaved, waveOps, fewLost
	leastWaved, waveOps, fewLost = least, ops, few
	return func() { leastWaved, waveOps, fewLost = l, o, f }
}
