package plan

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// diffDaemons compares the daemons of connection sync. One that runs as wanted stays, whoever
// started it. Another one is replaced or stopped only if svcproxy started it.
func (d *differ) diffDaemons() {
	differences := kernel.Rows[kernel.KindDaemon].Objects.Differences(d.want, d.have.State)
	if differences == nil {
		return
	}
	for {
		w, h := differences.Next()
		switch {
		case w == nil && h == nil:
			return
		case h == nil:
			d.add(kernel.Rows[kernel.KindDaemon].Build, w)
		case !d.have.OwnsDaemon(h.(kernel.SyncDaemon)):
			if w != nil {
				d.plan.Daemons = append(d.plan.Daemons, h.(kernel.SyncDaemon))
				d.plan.Warnings = append(d.plan.Warnings, foreignDaemon(w, h.(kernel.SyncDaemon)))
			}
		case w != nil:
			d.change(kernel.Rows[kernel.KindDaemon].Build, h, w)
		default:
			d.remove(kernel.Rows[kernel.KindDaemon].Teardown, h)
		}
	}
}

func foreignDaemon(w kernel.Object, h kernel.SyncDaemon) string {
	return fmt.Sprintf("connection sync is not as configured (%s): another program runs the %s daemon (%s); stop it "+
		"there, or with: ipvsadm --stop-daemon %s",
		w, h.Role, h, h.Role)
}
