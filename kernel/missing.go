package kernel

// MissingError says that this machine lacks something, and what to do about it: a kernel
// module, an installed iptables. Trying again does not help.
type MissingError struct {
	What string // "the kernel has no IPVS"
	Hint string // "modprobe ip_vs"
}

func (e *MissingError) Error() string { return e.What }

// Exit is the exit code of proxy/cli for something missing, and the next step.
func (e *MissingError) Exit() (code int, hint string) { return 4, e.Hint }
