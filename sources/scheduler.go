package sources

import (
	"fmt"
	"slices"
	"strings"
)

// schedulers are those of Linux (net/netfilter/ipvs/ip_vs_*.c), by the names that IPVS gives them.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "fo", "ovf", "mh", "twos"}

// Schedulers are all that IPVS has, by its names for them; a kernel may lack some.
func Schedulers() []string { return slices.Clone(schedulers) }

// CheckScheduler says whether IPVS knows a scheduler by this name, and if not what would be right.
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

// ignoresWeights says whether a scheduler chooses among endpoints as if their weights were equal (0
// excepted: that is a drain to all of them). As read in the kernel's ip_vs_rr.c, ip_vs_lc.c, ip_vs_dh.c.
func ignoresWeights(scheduler string) bool {
	return scheduler == "rr" || scheduler == "lc" || scheduler == "dh"
}
