package kernel

// Progress is how far a Kernel has come with the present call.
type Progress struct {
	// Activity grows with each answer of the kernel, with each tool that ends, and while a
	// tool runs that has a timeout: while it grows, a long call is not stuck.
	Activity uint64
	// Done counts the finished ops of the plan that is being applied, and Of all of
	// them. Of is 0 when none is.
	Done, Of int
}
