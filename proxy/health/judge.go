package health

import (
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Known is what a table is overlaid with. Its zero changes nothing, unless the table has backups.
type Known struct {
	Verdicts  Verdicts
	Overrides Overrides
	Ramps     Ramps
	// Silent are endpoints that answer none of their clients over TCP. It is replaced, and never changed.
	Silent map[netip.AddrPort]bool
}

// slot is one port of an endpoint.
type slot struct {
	endpoint, port int
	key            Key // zero if it is not checked
	verdict        Verdict
	silent         bool // and so it is down
	out, reweighed *Override

	weight  uint32 // before shares
	percent uint32 // share that the agent or the operator gives it
	step    uint32 // of its slow start, 1 to rampSteps
	cut     bool   // when it gets no connections, those that it has end
	cause   Cause
	mode    Mode // of its group
}

// serving reports whether the slot gets connections.
func (s *slot) serving() bool { return s.cause <= Spared }

// judge judges one service after the other. It keeps its memory from one to the next.
type judge struct {
	known    Known
	overrule matcher
	now      time.Time
	intern   interned

	service *sources.Service
	slots   []slot     // of all ports of all endpoints, in their order
	members [][2][]int // indexes of the slots of each service port: those of IPv4, those of IPv6
	groups  []Group
}

func newJudge(k Known, now time.Time) *judge {
	return &judge{known: k, overrule: newMatcher(k.Overrides, now), now: now}
}

// judge fills slots and groups for a service. It returns false if nothing but the table decides on it.
func (j *judge) judge(s *sources.Service) bool {
	j.service, j.slots, j.groups = s, j.slots[:0], j.groups[:0]
	check := checked(s)
	if !check && (j.overrule.empty() || !s.Type.Serves()) && !hasBackup(s) {
		return false
	}
	for i := range s.Endpoints {
		for k := range s.Endpoints[i].Ports {
			j.slots = append(j.slots, j.slot(i, k, check))
		}
	}
	j.divide()
	for p := range s.Ports {
		j.group(&s.Ports[p], true, j.members[p][1])
		j.group(&s.Ports[p], false, j.members[p][0])
	}
	return true
}

func hasBackup(s *sources.Service) bool {
	for i := range s.Endpoints {
		if s.Endpoints[i].Backup {
			return true
		}
	}
	return false
}

// slot looks at one endpoint's port alone.
func (j *judge) slot(endpoint, port int, check bool) slot {
	s, e := j.service, &j.service.Endpoints[endpoint]
	x := slot{endpoint: endpoint, port: port, weight: e.Weight, percent: 100, step: rampSteps}
	x.out, x.reweighed = j.overrule.find(s, e, e.Ports[port].Port)
	ask := AskNothing
	if check {
		if key, ok := j.intern.key(s, e, port); ok {
			x.key, x.verdict = key, j.known.Verdicts.Of[key]
			ask = x.verdict.Ask
			if p := x.verdict.Percent; p != 0 {
				x.percent = uint32(p)
			}
		}
	}
	if w := x.reweighed; w != nil {
		if w.Weight.Percent {
			x.percent = w.Weight.N
		} else {
			x.weight, x.percent = w.Weight.N, 100
		}
	}
	switch {
	case x.out != nil && x.out.Verb == Disable:
		x.cause, x.cut = Disabled, true
	case x.out != nil, x.reweighed != nil && x.reweighed.Weight.N == 0:
		x.cause = Drained
	case ask != AskNothing:
		x.cause, x.cut = Asked, ask == AskMaint
	case x.weight == 0 || !e.Ready && !s.PublishNotReadyAddresses:
		x.cause = ByFile
	default:
		x.cause = j.alone(&x)
	}
	return x
}

// alone returns the cause by the slot's own verdict.
func (j *judge) alone(x *slot) Cause {
	if x.key == (Key{}) {
		return Serves
	}
	waits := j.service.HealthCheck.Initial == sources.InitialDown
	x.silent = j.service.HealthCheck.Passive && j.answersNobody(x)
	switch {
	case x.silent:
		return IsDown
	case x.verdict.Serves(!waits):
		return Serves
	case x.verdict.Phase == Unknown && !j.known.Verdicts.Blind:
		return Waits
	}
	return IsDown
}

// answersNobody reports whether the clients of a slot wait in vain.
func (j *judge) answersNobody(x *slot) bool {
	e := &j.service.Endpoints[x.endpoint]
	p := e.Ports[x.port]
	return p.Protocol == sources.TCP && j.known.Silent[netip.AddrPortFrom(e.Addr, p.Port)]
}

// cutsDown reports whether a slot that is down is cut. Under UDP it is, because IPVS would go on sending the packets of
// known clients to it.
func (j *judge) cutsDown(x *slot) bool {
	proto := j.service.Endpoints[x.endpoint].Ports[x.port].Protocol
	return proto == sources.UDP || j.service.HealthCheck != nil && j.service.HealthCheck.OnDown == sources.DownCut
}
