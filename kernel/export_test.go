package kernel

// Cut makes about n parts of a state that is too small to need them.
func Cut(s *State, n int) []Part {
	total := 0
	for _, cost := range s.pieces() {
		total += cost
	}
	return s.cut(total / n)
}
