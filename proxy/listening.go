package proxy

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/sources"
)

// Listening returns facts with the programs that listen on a node.
func Listening(facts sources.HostFacts, n kernel.Node, programs []kernel.Listener) sources.HostFacts {
	facts.Listeners = nil
	for _, p := range programs {
		l := sources.Listener{Addr: p.Addr, V6Only: p.V6Only, Port: p.Port,
			Protocol: sources.Protocol(p.Proto), Program: p.Program}
		if p.Link == "" || !p.Addr.IsUnspecified() {
			facts.Listeners = append(facts.Listeners, l)
			continue
		}
		whole := l
		for _, a := range n.Addrs { // what is bound to a link gets what is sent to the link's addresses
			if l.Addr = a.Prefix.Addr(); a.Link == p.Link && whole.At(l.Addr) {
				facts.Listeners = append(facts.Listeners, l)
			}
		}
	}
	return facts
}

// Serving returns what a reading of the kernel serves for svcproxy at the node's own addresses, as facts have it. Every
// port counts as a node port, too.
func Serving(o *kernel.Observed) []sources.Claim {
	translated, _ := plan.Translated(o)
	keys := plan.Owned(o, nil)
	for _, v := range translated {
		keys = append(keys, v.Key)
	}
	var list []sources.Claim
	for _, k := range keys {
		if o.Node.Has(k.Addr) || k.Addr.IsLoopback() {
			protocol := sources.Protocol(k.Proto)
			list = append(list, sources.Claim{Addr: k.Addr, Port: k.Port, Protocol: protocol},
				sources.Claim{Port: k.Port, Protocol: protocol})
		}
	}
	kernel.SortFunc(list, sources.Claim.Compare)
	return slices.Compact(list)
}

// listening is what the loop knows of the programs of this host that listen where services ask to be served.
type listening struct {
	programs []kernel.Listener
	serving  []sources.Claim // at the first reading
	read     bool
	awaited  bool // something is withheld for a program

	displaced []sources.Displaced // by services
}

// judgedPrograms takes what a merge decided about programs that listen.
func (p *Proxy) judgedPrograms(m *sources.Merged) {
	l := &p.listening
	if l.awaited = m.Awaits; slices.Equal(l.displaced, m.Displaced) {
		return
	}
	l.displaced = m.Displaced
	list := make([]condition.Condition, len(m.Displaced))
	for i, d := range m.Displaced {
		list[i] = condition.Condition{Subject: d.Claim.String(),
			Text: d.Program + " listens there and gets no new connections: " + d.Service + " is served"}
	}
	p.Conditions.SetAll(condition.Displaced, list)
}

// facts are those of the configuration with what the kernel says of this node. The programs are looked at when the
// kernel is, and when services ask for other ports.
func (p *Proxy) facts(checked bool) sources.HostFacts {
	have, l := &p.reading.have, &p.listening
	facts := OnNode(p.input.facts, have.Node)
	if p.Listeners == nil {
		return facts
	}
	if !l.read {
		l.serving = Serving(have)
	}
	more := p.merger.AsksForMore(facts, p.input.tables)
	if facts.Serving = l.serving; checked || !l.read || more {
		l.read = true
		programs, err := p.Listeners(p.wants(facts))
		text := ""
		if err != nil {
			text = err.Error()
			if programs == nil { // else they are those of some protocols
				programs = l.programs
			}
		}
		l.programs = programs
		p.Conditions.Set(condition.Unlistened, "", text, "")
	}
	return Listening(facts, have.Node, l.programs)
}

// wants reports whether a service asks for a port at the node's own addresses.
func (p *Proxy) wants(facts sources.HostFacts) func(uint16, kernel.Proto) bool {
	wanted := p.merger.Wants(facts, p.input.tables)
	return func(port uint16, proto kernel.Proto) bool { return wanted(port, sources.Protocol(proto)) }
}

// programsChanged reports whether a program for which something is withheld may have stopped. The kernel does not say
// when a socket is closed.
func (p *Proxy) programsChanged() bool {
	if !p.listening.awaited {
		return false
	}
	programs, err := p.Listeners(p.wants(OnNode(p.input.facts, p.reading.have.Node)))
	return (err == nil || programs != nil) && !slices.Equal(programs, p.listening.programs)
}
