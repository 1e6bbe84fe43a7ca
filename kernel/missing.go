package kernel

// MissingError says that this machine lacks something, and what to do about it: a kernel
// module, an installed iptables. Trying again does not help.
type MissingError struct {
	What string // "the kernel has no IPVS"
	Hint string // "modprobe ip_vs"
}

// ErrNoNFTables is the error if this kernel has no nftables.
var ErrNoNFTables = &MissingError{What: "this kernel has no nftables (module nf_tables)", Hint: "modprobe nf_tables"}

// Missing lists everything that an error says is missing.
func Missing(err error) (list []*MissingError) {
	switch e := err.(type) {
	case *MissingError:
		return []*MissingError{e}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			list = append(list, Missing(part)...)
		}
	case interface{ Unwrap() error }:
		return Missing(e.Unwrap())
	}
	return list
}

func (e *MissingError) Error() string { return e.What }

// Exit is the exit code of proxy/cli for something missing, and the next step.
func (e *MissingError) Exit() (code int, hint string) { return 4, e.Hint }
