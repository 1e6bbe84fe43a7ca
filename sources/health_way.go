package sources

import "net/netip"

// way returns how probes with ViaVIP reach the endpoints of a service. node has the node's forwarding method, "" if the
// node masquerades everything, and its port of GUE.
func (s *Service) way(node Way) Way {
	if s.HealthCheck.Probe.Via != ViaVIP || node.Forward == "" {
		return Way{}
	}
	by := s.Forwarding(node.Forward)
	if !by.Unchanged() {
		return Way{}
	}
	w := Way{VIP4: s.probedVIP(false), VIP6: s.probedVIP(true), Forward: by}
	if by == GUE {
		w.GUEPort = node.GUEPort
	}
	return w
}

// probedVIP returns the VIP of a family that clients use most likely: of load balancer IPs, external IPs and
// cluster IPs the first one. It is invalid if there is none.
func (s *Service) probedVIP(v6 bool) (vip netip.Addr) {
	var kind AddressKind
	for k, a := range s.VIPs {
		if a.Is6() == v6 && (!vip.IsValid() || k != kind) {
			vip, kind = a, k // later kinds come from further outside
		}
	}
	return vip
}

// viaVIP applies the rules about checks with ViaVIP.
func (v *validation) viaVIP(s *Service) {
	p := &s.HealthCheck.Probe
	switch {
	case p.Via != ViaVIP:
	case s.Forward == Masquerade:
		v.refuse(s, `health check: via = "vip" needs forward = "direct", "ipip" or "gue": masqueraded packets have the `+
			`endpoint's address, not the VIP`)
	case p.Mark != 0 || p.Interface != "":
		v.refuse(s, `health check: via = "vip" cannot have mark or interface: such probes take the way of the service's `+
			`packets`)
	}
}

// viaVIP warns of checks with ViaVIP of a service that the node masquerades.
func (j *judgement) viaVIP(s *Service) {
	if s.HealthCheck.Probe.Via == ViaVIP && s.Forward != Masquerade &&
		(j.host.onlyMasquerades() || !s.Forwarding(j.host.Forward).Unchanged()) {
		j.doubt(s, `health check: via = "vip" has no effect: this node masquerades the service, so probes go to the `+
			`endpoints' addresses alone`)
	}
}
