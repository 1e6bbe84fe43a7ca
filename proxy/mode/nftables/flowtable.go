package nftables

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// offload gives connections to the flowtable: translated ones to VIPs that are ours, once both ends have answered. The
// kernel takes TCP and UDP, and neither ends nor errors of connections.
//
// Those to node ports go by the rules: others translate the node's addresses, too, and nft 1.0.6 cannot read a look-up
// of an original address with its port.
func offload(n kernel.Names, f kernel.Family) string {
	return "-m conntrack --ctstate ESTABLISHED -m conntrack --ctstate DNAT -m set --match-set " +
		n.Set(f, kernel.IPVSIPs) + " origdst -j FLOWOFFLOAD"
}

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
		if a.Link != "lo" && a.Link != "" && a.Link != "-" && !strings.Contains(a.Link, ",") {
			all = append(all, a.Link)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return strings.Join(all[:min(len(all), mostLinks)], ",")
}
