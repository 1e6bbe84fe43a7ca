package proxy

import (
	"cmp"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// SysctlChange is a kernel parameter, or one of IPVS's timeouts, that a sync changed.
// From is "" if it was not known.
type SysctlChange struct{ Name, From, To string }

func (c SysctlChange) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Name, cmp.Or(c.From, "unknown"), c.To)
}

// Sysctls returns the kernel parameters that the sync changed.
func (r Report) Sysctls() []SysctlChange {
	var list []SysctlChange
	for _, o := range kernel.Done(r.Plan.Ops, r.Err) {
		switch to := o.Object.(type) {
		case kernel.Sysctl:
			was, _ := o.Was.(kernel.Sysctl)
			list = append(list, SysctlChange{to.Name, was.Value, to.Value})
		case kernel.Timeouts:
			was, _ := o.Was.(kernel.Timeouts)
			from := map[string]string{}
			for _, p := range was.Parameters() {
				from[p.Name] = p.Value
			}
			for _, p := range to.Parameters() {
				list = append(list, SysctlChange{p.Name, from[p.Name], p.Value})
			}
		}
	}
	return list
}
