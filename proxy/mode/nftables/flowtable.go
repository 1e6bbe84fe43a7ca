package nftables

import (
	"slices"
	"strings"
)

// offload gives connections to the flowtable: those that are translated, once both ends have answered. The kernel
// takes TCP and UDP, and neither ends nor errors of connections.
const offload = "-m conntrack --ctstate ESTABLISHED -m conntrack --ctstate DNAT -j FLOWOFFLOAD"

// mostLinks is how many links one message can have.
const mostLinks = 256

// links are those of the flowtable, "" without one: those that have addresses, since the reading of a node follows
// them. What comes in by others goes by the rules.
func (w *writer) links() string {
	if !w.Config.Flowtable {
		return ""
	}
	var all []string
	for _, a := range w.Frontends.Node.Addrs {
		if a.Link != "lo" && a.Link != "" {
			all = append(all, a.Link)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return strings.Join(all[:min(len(all), mostLinks)], ",")
}
