package plan

import (
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
)

// unlike returns the timeouts that are set and differ from have.
func unlike(t, have kernel.Timeouts) kernel.Timeouts {
	for _, p := range t.Parameters() {
		if f := t.Field(p.Name); *f == *have.Field(p.Name) {
			*f = 0
		}
	}
	return t
}

// diffTimeouts is diffSysctls for IPVS timeouts. They are one object, since the kernel
// reads and sets all of them in one call.
func (d *differ) diffTimeouts() {
	want, have := d.want.Timeouts, d.have.Timeouts
	if to := unlike(want, have); to != (kernel.Timeouts{}) {
		d.change(kernel.SetSysctls, have, to)
	}
	if !d.decided(have) {
		return
	}
	var back kernel.Timeouts
	for _, s := range d.have.Saved {
		to := back.Field(s.Name)
		if to == nil || *want.Field(s.Name) != 0 || s.Ours == s.Before {
			continue
		}
		before, err := strconv.ParseUint(s.Before, 10, 32)
		// If the value is no longer ours, another program or a person set it on purpose.
		if err == nil && strconv.FormatUint(uint64(*have.Field(s.Name)), 10) == s.Ours {
			*to = uint32(before)
		}
	}
	if back != (kernel.Timeouts{}) {
		d.change(kernel.RestoreSysctls, have, back)
	}
}
