package kernel

// Warnings returns a line for each thing that keeps clients from being served, or slows them down, although
// the kernel is as wanted: first what other programs' firewalls do, then the rest.
func Warnings(want *State, have *Observed) (firewall, others []string) {
	return Barred(have.Firewall, want.Virtuals), SmallHash(want.Sysctls, have.Sysctls)
}
