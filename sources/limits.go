package sources

import "slices"

// MostConnections is the largest limit of connections that an endpoint can have: ipvsadm takes no larger one.
const MostConnections = 1<<31 - 1

// limits applies the rules about an endpoint's limit of connections. IPVS refuses a lower threshold above the
// upper one.
func (v *validation) limits(s *Service, e *Endpoint) {
	switch most, resume := e.MaxConnections, e.ResumeConnections; {
	case most > MostConnections:
		v.refuse(s, "endpoint %s: maxConnections %d must be at most %d", e.Addr, most, MostConnections)
	case most == 0 && resume != 0:
		v.refuse(s, "endpoint %s: resumeConnections %d has no effect without maxConnections", e.Addr, resume)
	case resume > most:
		v.refuse(s, "endpoint %s: resumeConnections %d must be at most maxConnections, %d", e.Addr, resume, most)
	}
}

// limits warns of limits of connections that the mode does not have, or that refuse clients.
func (j *judgement) limits(s *Service) {
	if !slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool { return e.MaxConnections != 0 }) {
		return
	}
	switch {
	case j.host.Mode == ModeIPTables, j.host.Mode == ModeNFTables:
		j.doubt(s, "maxConnections has no effect: mode %s does not count the connections of an endpoint, modes ipvs "+
			"and userspace do", j.host.Mode)
	case j.host.scheduler(s) == "dh":
		j.doubt(s, `scheduler "dh" refuses all clients of a VIP while its endpoint is at maxConnections: "mh" gives them `+
			`another endpoint`)
	}
}
