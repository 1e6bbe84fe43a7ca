package iptables

import (
	"fmt"

	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// WhyNot returns "": rules serve all fronts.
func (*Mode) WhyNot(*frontend.Front) string { return "" }

// Doubts says what of some frontends is otherwise than configured in this mode, a line each.
func (*Mode) Doubts(f *frontend.Frontends, c mode.Config) (lines []string) {
	const other = "mode iptables has no scheduler %s and chooses at random, by weights"
	if !random(f.Config.Scheduler) {
		lines = append(lines, fmt.Sprintf(other, f.Config.Scheduler))
	}
	var sticky []string
	for i := range f.Table.Services.Len() {
		s := f.Table.Services.At(i)
		if !s.Type.Serves() {
			continue
		}
		if !random(s.Scheduler) {
			lines = append(lines, fmt.Sprintf("%s: "+other, s.DisplayName(), s.Scheduler))
		}
		if s.Affinity == sources.AffinityClientIP {
			sticky = append(sticky, s.DisplayName())
		}
	}
	lines = append(lines, mode.NoForward(f, mode.IPTables)...)
	switch {
	case len(sticky) == 0:
	case c.NoAffinity:
		lines = append(lines, fmt.Sprintf("session affinity of %s (%s) has no effect: iptables or the kernel has no match "+
			"recent: "+
			"load or install module xt_recent, then restart svcproxy", sources.Count(len(sticky), "service"),
			sources.Few(sticky, 3)))
	default:
		lines = append(lines, fmt.Sprintf("session affinity of %s remembers the last 100 clients of each endpoint: "+
			"for more, set options xt_recent ip_list_tot=N in /etc/modprobe.d", sources.Count(len(sticky), "service")))
	}
	return lines
}

// random reports whether the random choice of this mode divides connections as a scheduler
// does, on average.
func random(scheduler string) bool {
	return scheduler == "" || scheduler == "rr" || scheduler == "wrr"
}
