// Package mode is what the modes of svcproxy share. A mode turns Frontends into
// the kernel state that serves them; each has a package of its own below this
// one. Common to all are the configuration, the VIPs, the policy for Diff and the
// sysctls for forwarding and connection tracking.
package mode

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// The names of the modes, as the configuration has them. Each mode's package says what it is.
const (
	IPVS      = sources.ModeIPVS
	IPTables  = sources.ModeIPTables
	NFTables  = sources.ModeNFTables
	Userspace = sources.ModeUserspace
)

// Mode is one way to serve frontends. A value belongs to one loop: it may keep
// its last state and patch it.
type Mode interface {
	// Name is the mode's name in the configuration.
	Name() string
	// Needs are the adapters of the kernel that the mode cannot do without.
	Needs() []kernel.Adapter
	// Trial is one rule of each kind that State may contain, in chains that nothing jumps
	// to: where the kernel does not take them, the mode cannot be used. nil if its
	// adapters say enough.
	Trial(n kernel.Names) []kernel.Chain
	// Extras are what State uses where the kernel has it, and can do without.
	Extras(n kernel.Names) []Extra
	// Periods returns how often a loop in this mode checks the kernel and syncs.
	Periods(c Config) Periods
	// Sysctls are the names of the kernel parameters that State may contain, sorted.
	Sysctls() []string
	// Doubts says what of f the mode serves otherwise than configured, or not at all, a
	// line each.
	Doubts(f *frontend.Frontends, c Config) []string
	// WhyNot says why the mode cannot serve a front at all; "" if it can.
	WhyNot(x *frontend.Front) string
	// State returns what the kernel must look like to serve f: sorted, without
	// duplicates, and equal for equal arguments.
	State(f *frontend.Frontends, c Config) kernel.State
}

// Extra is something that a mode uses where the kernel has it.
type Extra struct {
	// Trial is a rule of it, as in Mode.Trial.
	Trial []kernel.Chain
	// Without changes the configuration of a mode that does without.
	Without func(*Config)
	// Absent reports whether what a kernel has was written without it. It is for a program
	// that may not try the rule.
	Absent func(*kernel.State) bool
}

// Choose returns the modes that may be used for a configured name: that one, or all
// for "". The caller lists the modes in the order of preference.
func Choose(name string, modes ...Mode) ([]Mode, error) {
	if name == "" {
		return modes, nil
	}
	for _, m := range modes {
		if m.Name() == name {
			return []Mode{m}, nil
		}
	}
	return nil, &kernel.MissingError{
		What: fmt.Sprintf("mode %s is not in this version", name),
		Hint: fmt.Sprintf("set mode = %q, or leave it out", modes[0].Name()),
	}
}
