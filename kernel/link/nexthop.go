package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	netlinknl "github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// NextHop is the host that packets for an address go to first.
type NextHop struct {
	Local bool             // the address is this node's own; the other fields are zero
	Link  int              // the index of the device
	MAC   net.HardwareAddr // nil if it is not known yet
}

// known are the states of a neighbour whose address can be used.
const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_NOARP |
	netlink.NUD_PERMANENT

// FindNextHop returns the next hop for an address. It has the kernel ask for the MAC address, as a packet to
// it would, if the kernel does not know it or has not used it lately. It needs CAP_NET_ADMIN.
func FindNextHop(to netip.Addr) (NextHop, error) {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil {
		return NextHop{}, fmt.Errorf("asking for the route to %s: %w", to, err)
	}
	if len(routes) == 0 {
		return NextHop{}, fmt.Errorf("asking for the route to %s: no answer", to)
	}
	r := routes[0]
	if r.Type == unix.RTN_LOCAL {
		return NextHop{Local: true}, nil
	}
	if gateway, ok := addr(r.Gw); ok {
		to = gateway
	}
	h := NextHop{Link: r.LinkIndex}
	use := &netlink.Neigh{LinkIndex: h.Link, Family: int(kernel.FamilyOf(to)), IP: to.AsSlice(), Flags: netlink.NTF_USE}
	if err := netlink.NeighSet(use); err != nil {
		return NextHop{}, fmt.Errorf("asking for the MAC address of %s: %w", to, err)
	}
	h.MAC, err = macOf(use)
	return h, err
}

// macOf returns the MAC address of a neighbour, nil if the kernel does not know it.
func macOf(n *netlink.Neigh) (net.HardwareAddr, error) {
	request := netlinknl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	request.AddData(&netlink.Ndmsg{Family: uint8(n.Family), Index: uint32(n.LinkIndex)})
	request.AddData(netlinknl.NewRtAttr(netlink.NDA_DST, n.IP))
	answers, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the neighbour %s: %w", n.IP, err)
	}
	for _, m := range answers {
		found, err := netlink.NeighDeserialize(m)
		if err != nil {
			return nil, fmt.Errorf("reading the neighbour %s: %w", n.IP, err)
		}
		if found.State&known != 0 {
			return found.HardwareAddr, nil
		}
	}
	return nil, nil
}
