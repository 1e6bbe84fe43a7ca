package kernel

// Progress is how far a Kernel has come with what it was asked for.
type Progress struct {
	// Activity grows whenever the kernel has answered something, or a tool has
	// ended: while it grows, a long call is not stuck.
	Activity uint64
	// Done steps Of a plan that is being applied; Of is 0 when none is.
	Done, Of int
}
