package sources

import (
	"fmt"
	"slices"
	"strings"
)

// schedulers are the schedulers of Linux (net/netfilter/ipvs/ip_vs_*.c), by the names that IPVS gives them.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "fo", "ovf", "mh", "twos"}

// Schedulers returns the names of all schedulers that IPVS has. A kernel may lack some.
func Schedulers() []string { return slices.Clone(schedulers) }

// CheckScheduler returns an error, with a hint, if IPVS has no scheduler with this name.
func CheckScheduler(name string) error {
	if slices.Contains(schedulers, name) {
		return nil
	}
	hint := "must be one of " + strings.Join(schedulers, ", ")
	switch l := strings.ToLower(name); {
	case slices.Contains(schedulers, l):
		hint = fmt.Sprintf("did you mean %q?", l)
	case name == "ip_hash":
		hint = `did you mean "sh", which chooses by the client's address?`
	}
	return fmt.Errorf("scheduler %q is not known, %s", name, hint)
}

// ignoresWeights reports whether a scheduler treats all weights but 0 as equal. Under each of them an endpoint of weight
// 0 gets no new connections. See the kernel's ip_vs_rr.c, ip_vs_lc.c and ip_vs_dh.c.
func ignoresWeights(scheduler string) bool {
	return scheduler == "rr" || scheduler == "lc" || scheduler == "dh"
}
