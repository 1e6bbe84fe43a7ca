package kernel

// Progress is how far a Kernel has come with the present call.
type Progress struct {
	// Activity grows with each answer of the kernel and each tool that ends: while it
	// grows, a long call is not stuck.
	Activity uint64
	// Done counts the finished ops of the plan that is being applied, and Of all of
	// them. Of is 0 when none is.
	Done, Of int
}
