package sources

import (
	"slices"
	"strings"
)

// health applies the rules about a service's health check. Those about a single key are the source's.
func (v *validation) health(s *Service) {
	c := s.HealthCheck
	if c == nil {
		return
	}
	if given := ^c.Unset; given.Has(HealthTimeout) && given.Has(HealthInterval) && c.Probe.Timeout > 10*c.Interval {
		v.refuse(s, "health check: timeout %s is more than 10 times the interval, %s", c.Probe.Timeout, c.Interval)
	}
	if c.SlowStart > 0 && s.Scheduler != "" && !SlowStarts(s.Scheduler) {
		v.refuse(s, "health check: slowStart needs a scheduler that heeds weights and moves no clients: %s, not %s",
			strings.Join(slowStarters, ", "), s.Scheduler)
	}
	v.probedPort(s, &c.Probe)
	v.viaVIP(s)
	if !c.Probe.Source.IsValid() {
		return
	}
	for _, e := range s.Endpoints {
		if !e.Unchecked && e.Addr.Is4() != c.Probe.Source.Is4() {
			v.refuse(s, "health check: source %s is %s and endpoint %s is not", c.Probe.Source, family(c.Probe.Source), e.Addr)
			return
		}
	}
}

// probedPort checks that the port that is probed exists and speaks the protocol of the check. A port number is taken as
// it is: it need not be a port of the service.
func (v *validation) probedPort(s *Service, p *Probe) {
	if p.Type.Protocol() == 0 || p.Port != 0 {
		return
	}
	if p.PortName != "" {
		i := slices.IndexFunc(s.Ports, func(port Port) bool { return port.Name == p.PortName })
		switch {
		case i < 0:
			v.refuse(s, "health check: the service has no port named %q", p.PortName)
		case s.Ports[i].Protocol != p.Type.Protocol():
			v.wrongProtocol(s, p, s.Ports[i])
		}
		return
	}
	if s.FWMark != 0 {
		v.refuse(s, "health check: type %s needs a port, since fwmark has none", p.Type)
		return
	}
	// Ports of another protocol are judged by one that the probe can ask, as with DNS, which has both.
	if len(s.Ports) > 0 && !slices.ContainsFunc(s.Ports, func(o Port) bool { return o.Protocol == p.Type.Protocol() }) {
		v.wrongProtocol(s, p, s.Ports[0])
	}
}

func (v *validation) wrongProtocol(s *Service, p *Probe, port Port) {
	if port.Protocol == UDP {
		v.refuse(s, "health check: port %d is UDP and needs type udp, dns, ping or exec, not %s; or give the check another "+
			"port", port.Port, p.Type)
		return
	}
	v.refuse(s, "health check: type %s probes %s, and port %d is %s: give the check another port, or another type", p.Type,
		p.Type.Protocol(), port.Port, port.Protocol)
}
