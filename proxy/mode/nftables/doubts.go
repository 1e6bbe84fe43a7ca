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

// Doubts says what of some frontends is otherwise than configured in this mode, a line each.
func (*Mode) Doubts(f *frontend.Frontends, c mode.Config) (lines []string) {
	const other = "mode nftables has no scheduler %s and chooses at random, by weights; mode ipvs has it"
	if !known(f.Config.Scheduler) {
		lines = append(lines, fmt.Sprintf(other, f.Config.Scheduler))
	}
	if len(c.Sync) > 0 {
		lines = append(lines, "mode nftables has no connection sync; mode ipvs has it")
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
		if s.OnePacket {
			lines = append(lines, s.DisplayName()+": mode nftables balances connections, not packets one by one; mode ipvs "+
				"has onePacket")
		}
		if limited(s) {
			lines = append(lines, s.DisplayName()+": mode nftables does not limit connections; mode ipvs has maxConnections")
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

// limited reports whether an endpoint has a most number of connections.
func limited(s *sources.Service) bool {
	return slices.ContainsFunc(s.Endpoints, func(e sources.Endpoint) bool { return e.MaxConnections > 0 })
}

// known reports whether the mode divides connections as a scheduler does, on average.
func known(scheduler string) bool {
	return slices.Contains([]string{"", "rr", "wrr", "sh", "mh"}, scheduler)
}
