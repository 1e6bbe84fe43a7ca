package host

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// setSync starts and stops daemons of connection sync. Saved has a daemon before it runs, so that after
// a crash at any point a later process knows it as svcproxy's.
func (k *Kernel) setSync(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		errs[i] = k.setDaemon(op)
	}
	return errs
}

func (k *Kernel) setDaemon(op kernel.Op) error {
	d, ok := op.Object.(kernel.SyncDaemon)
	if !ok {
		return fmt.Errorf("%s is not a daemon of connection sync", op.Object.Kind())
	}
	if op.Verb != kernel.Add {
		if err := k.ipvs.StopSync(d.Role); err != nil {
			return err
		}
	}
	defer k.saved.Flush()
	if op.Verb == kernel.Remove {
		k.saved.Wrote(d.SavedName(), "")
		return nil
	}
	k.saved.Save(d.SavedName(), "", d.String())
	k.saved.Wrote(d.SavedName(), d.String())
	k.saved.Flush()
	return k.ipvs.StartSync(d)
}
