package kernel

// Kinds are all kinds of objects, in the order of the canonical text.
func Kinds() []Kind {
	kinds := make([]Kind, NumKinds)
	for i := range kinds {
		kinds[i] = Kind(i)
	}
	return kinds
}
