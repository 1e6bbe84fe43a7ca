package proxy

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// SysctlChange is a kernel parameter, or one of IPVS's timeouts, that a sync
// changed. From is "" where it was not known.
type SysctlChange struct{ Name, From, To string }

func (c SysctlChange) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Name, cmp.Or(c.From, "unknown"), c.To)
}

// Sysctls are the kernel parameters that the sync has changed.
func (r Report) Sysctls() []SysctlChange {
	var list []SysctlChange
	for _, o := range r.Plan.Ops {
		if kind := o.Object.Kind(); kind != kernel.KindSysctl && kind != kernel.KindTimeouts || r.failed(o) {
			continue
		}
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

// failed says whether an op of the plan was not carried out.
func (r Report) failed(o kernel.Op) bool {
	var apply *kernel.ApplyError
	if !errors.As(r.Err, &apply) {
		return false
	}
	for _, f := range apply.Failed {
		if f.Op.Object == o.Object {
			return true
		}
	}
	return false
}
