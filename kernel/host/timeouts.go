package host

import (
	"errors"

	"github.com/svcproxy/svcproxy/kernel"
)

// setTimeouts sets the IPVS timeouts and saves the old ones, as sysctl.Params does for sysctls.
func (k *Kernel) setTimeouts(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		if op.Verb == kernel.Change {
			errs[i] = k.setTimeout(op.Object.(kernel.Timeouts))
		} else {
			errs[i] = errors.New("timeouts can only be changed")
		}
	}
	return errs
}

func (k *Kernel) setTimeout(to kernel.Timeouts) error {
	now, err := k.ipvs.Timeouts()
	if err != nil {
		return err
	}
	was := make(map[string]string)
	for _, p := range now.Parameters() {
		was[p.Name] = p.Value
	}
	for _, p := range to.Parameters() {
		k.saved.Save(p.Name, was[p.Name], p.Value)
	}
	k.saved.Flush()
	if err := k.ipvs.SetTimeouts(to); err != nil {
		return err
	}
	for _, p := range to.Parameters() {
		k.saved.Wrote(p.Name, p.Value)
	}
	k.saved.Flush()
	return nil
}
