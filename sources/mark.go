package sources

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// FWMark is the protocol of the only port of a service by firewall mark. The kernel's tables have the same
// number for it.
const FWMark Protocol = 255

// markAddr holds a firewall mark in its last four bytes, as the kernel's tables do: see kernel.FWMark.
func markAddr(mark uint32, v6 bool) netip.Addr {
	var p [16]byte
	binary.BigEndian.PutUint32(p[12:], mark)
	if v6 {
		return netip.AddrFrom16(p)
	}
	return netip.AddrFrom4([4]byte(p[12:]))
}

// markPorts are the ports of a service by firewall mark: one that stands for all, whatever their protocol.
func markPorts() []Port { return []Port{{Protocol: FWMark}} }

// SetMark makes a service one by firewall mark: it serves all packets that another program marks so.
func (s *Service) SetMark(mark uint32) { s.FWMark, s.Ports = mark, markPorts() }

// markAddresses yields the mark in both families. Both have one Claim, so a mark has one service.
func (s *Service) markAddresses(yield func(Address) bool) bool {
	for _, v6 := range []bool{false, true} {
		if !yield(Address{Kind: KindMark, Addr: markAddr(s.FWMark, v6), Protocol: FWMark, Policy: Cluster}) {
			return false
		}
	}
	return true
}

func markClaim(mark uint32) Claim { return Claim{Addr: markAddr(mark, false), Protocol: FWMark} }

// Marks that Kubernetes uses: kube-proxy's for masquerading, which svcproxy also has, and kubelet's for dropping.
const (
	masqueradeMark uint32 = 0x4000
	dropMark       uint32 = 0x8000
)

// leavesMark is why the node does not balance by the mark of a service; "" if it does, or the service has none.
func (h *HostFacts) leavesMark(s *Service) string {
	switch {
	case s.FWMark == 0 || !s.Type.Serves():
		return ""
	case h.onlyMasquerades():
		return markClaim(s.FWMark).String() + ": only mode ipvs balances by marks"
	case s.FWMark&h.MasqueradeMark != 0:
		return fmt.Sprintf("%s: its bit %#x masquerades on this node, as iptables.masqueradeBit says", markClaim(s.FWMark),
			h.MasqueradeMark)
	}
	return ""
}

// mark applies the rules about services by firewall mark.
func (v *validation) mark(s *Service) {
	if s.FWMark == 0 {
		return
	}
	switch {
	case s.Type != ClusterIP || len(s.ClusterIPs)+len(s.ExternalIPs)+len(s.LoadBalancerIPs)+len(s.SourceRanges) > 0:
		v.refuse(s, "fwmark = %d and addresses: "+
			"the rules that mark packets also choose address and port; give one or the other", s.FWMark)
	case !slices.Equal(s.Ports, markPorts()):
		v.refuse(s, "fwmark = %d and ports: packets keep their port", s.FWMark)
	case s.ExternalTrafficPolicy == Local || s.InternalTrafficPolicy == Local:
		v.refuse(s, "fwmark = %d has no traffic policy: its endpoints see the client's address, wherever they are", s.FWMark)
	case s.HealthCheckNodePort != 0 || s.Announce != nil || s.AnnounceMinHealthy != nil:
		v.refuse(s, "fwmark = %d has no address: healthCheckNodePort and announce have no effect", s.FWMark)
	}
	if s.FWMark&(masqueradeMark|dropMark) != 0 {
		v.refuse(s, "fwmark = %d (%#x) has a bit that Kubernetes and svcproxy use: %#x masquerades, %#x drops", s.FWMark,
			s.FWMark, masqueradeMark, dropMark)
	}
	if s.Affinity != AffinityClientIP {
		return
	}
	for _, e := range s.Endpoints {
		if slices.ContainsFunc(e.Ports, func(p EndpointPort) bool { return p.Port != 0 }) {
			v.refuse(s, "endpoint %s: with fwmark and sessionAffinity IPVS keeps the packet's port: give the address alone",
				e.Addr)
		}
	}
}
