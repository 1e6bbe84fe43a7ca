package nftables

import (
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// WhyNot returns "": the maps serve all fronts.
func (*Mode) WhyNot(*frontend.Front) string { return "" }

// Doubts says what of some frontends is otherwise than configured in this mode, a line each. What it has in common with
// other modes, such as onePacket and maxConnections, sources.Doubts say.
func (*Mode) Doubts(f *frontend.Frontends, c mode.Config) (lines []string) {
	const other = "mode nftables has no scheduler %s and chooses at random, by weights; mode ipvs has it"
	if !known(f.Config.Scheduler) {
		lines = append(lines, fmt.Sprintf(other, f.Config.Scheduler))
	}
	if len(c.Sync) > 0 {
		lines = append(lines, "mode nftables has no connection sync; mode ipvs has it")
	}
	if c.Flowtable {
		lines = append(lines, "rules of FORWARD and their counters do not see packets of connections to VIPs that the "+
			"flowtable has (nftables.flowtable)")
	}
	var sticky []string
	for i := range f.Table.Services.Len() {
		s := f.Table.Services.At(i)
		if !s.Type.Serves() {
			continue
		}
		if !known(s.Scheduler) {
			lines = append(lines, fmt.Sprintf("%s: "+other, s.DisplayName(), s.Scheduler))
		}
		if s.Affinity == sources.AffinityClientIP {
			sticky = append(sticky, s.DisplayName())
		}
	}
	lines = append(lines, mode.NoForward(f, mode.NFTables)...)
	if len(sticky) > 0 {
		lines = append(lines, fmt.Sprintf("session affinity of %s (%s) is by a hash of the client's address and has no "+
			"timeout", sources.Count(len(sticky), "service"), sources.Few(sticky, 3)))
	}
	return lines
}

// known reports whether the mode divides connections as a scheduler does, on average.
func known(scheduler string) bool {
	return slices.Contains([]string{"", "rr", "wrr", "sh", "mh"}, scheduler)
}
