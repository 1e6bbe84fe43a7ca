package status

import (
	"github.com/svcproxy/svcproxy/proxy/screen"
)

// State reports whether a service is served.
type State string

// The states of a service.
const (
	LeftOut     State = "left out"
	Refused     State = "refused"
	Conflicting State = "conflict"
	Missing     State = "missing"
	Panic       State = "panic"
	NoBackends  State = "no backends"
	Partly      State = "partly"
	NotServed   State = "not served"
	Serving     State = "serving"
)

// states is the only list of service states. If several apply to a service, it
// gets the first of them. Metrics and the web page read this list; a test holds
// JSON.md to it.
var states = screen.Terms[State]{
	{Word: LeftOut, Meaning: "its name is taken, or all is withheld", Style: screen.Bad},
	{Word: Refused, Meaning: "the kernel refuses part of it", Style: screen.Bad},
	{Word: Conflicting, Meaning: "another program or host has its address", Style: screen.Bad},
	{Word: Missing, Meaning: "the kernel lacks part of it, perhaps during a sync", Style: screen.Bad},
	{Word: Panic, Meaning: "too few endpoints are up, so all serve", Style: screen.Bad},
	{Word: NoBackends, Meaning: "a port of it has no backends", Style: screen.Bad},
	{Word: Partly, Meaning: "part is withheld, or an address has no backends", Style: screen.Warn},
	{Word: NotServed, Meaning: "its type has nothing to serve", Style: screen.Faint},
	{Word: Serving, Meaning: "all of it is served", Style: screen.Good},
}

// States lists every state of a service.
func States() []State { return states.Words() }

// Meaning explains the state to an operator.
func (s State) Meaning() string { return states.Find(s).Meaning }

// Style is how the state looks on a terminal and on the web page.
func (s State) Style() screen.Style { return states.Find(s).Style }

// Verdict is what a service in this state means for the whole.
func (s State) Verdict() Verdict {
	switch {
	case s == NoBackends:
		return Empty
	case s.Style() == screen.Bad:
		return Degraded
	}
	return Well
}

// Trouble reports whether an operator should look at a service in this state.
func (s State) Trouble() bool { return s.Style() == screen.Bad || s.Style() == screen.Warn }

// VirtualStates lists the states that a virtual server can have.
func VirtualStates() []State { return []State{Conflicting, Missing, NoBackends, Serving} }

// State reports whether a virtual server is served.
func (v *Virtual) State() State {
	switch {
	case v.Conflict != "":
		return Conflicting
	case v.Missing || v.Gone > 0:
		return Missing
	case v.Backends == 0:
		return NoBackends
	}
	return Serving
}

// EndpointState says which connections an endpoint gets.
type EndpointState string

// The states of an endpoint.
const (
	EndpointServing  EndpointState = "serving"
	EndpointDraining EndpointState = "draining"
	EndpointPaused   EndpointState = "weight 0"
	EndpointUnused   EndpointState = "unused"
	EndpointMissing  EndpointState = "missing"
)

// endpointStates is the only list of endpoint states.
var endpointStates = screen.Terms[EndpointState]{
	{Word: EndpointServing, Meaning: "it gets new connections", Style: screen.Good},
	{Word: EndpointDraining, Meaning: "it leaves when its connections end", Style: screen.Warn},
	{Word: EndpointPaused, Meaning: "only the connections that it has", Style: screen.Faint},
	{Word: EndpointUnused, Meaning: "no connections, see `reason`", Style: screen.Faint},
	{Word: EndpointMissing, Meaning: "the kernel lacks it", Style: screen.Bad},
}

// EndpointStates lists every state of an endpoint.
func EndpointStates() []EndpointState { return endpointStates.Words() }

// Meaning explains the state to an operator.
func (s EndpointState) Meaning() string { return endpointStates.Find(s).Meaning }

// Style is how the state looks on a terminal and on the web page.
func (s EndpointState) Style() screen.Style { return endpointStates.Find(s).Style }
