package status

import (
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/screen"
)

// State says whether a service is served.
type State string

// The states of a service.
const (
	LeftOut     State = "left out"
	Refused     State = "refused"
	Conflicting State = "conflict"
	Missing     State = "missing"
	NoBackends  State = "no backends"
	Partly      State = "partly"
	NotServed   State = "not served"
	Serving     State = "serving"
)

// states is the only list of service states. If several apply to a service, it
// gets the first of them. Metrics and the web page read this list; a test holds
// JSON.md to it.
var states = []stateRow{
	{LeftOut, "another service has its name, or all of it is withheld", screen.Bad, cli.Degraded},
	{Refused, "the kernel refuses something of it", screen.Bad, cli.Degraded},
	{Conflicting, "another program has one of its virtual servers, or another host one of its VIPs", screen.Bad, cli.Degraded},
	{Missing, "the kernel lacks something of it: another program removed it, or a sync is in progress", screen.Bad, cli.Degraded},
	{NoBackends, "it, or one of its ports, has no backends", screen.Bad, cli.NoBackends},
	{Partly, "something of it is withheld, or one of its addresses has no backends", screen.Warn, cli.OK},
	{NotServed, "its type has nothing to serve", screen.Faint, cli.OK},
	{Serving, "all of it is served", screen.Good, cli.OK},
}

type stateRow struct {
	state   State
	meaning string
	style   screen.Style
	exit    int
}

// States lists every state of a service.
func States() []State {
	list := make([]State, len(states))
	for i, row := range states {
		list[i] = row.state
	}
	return list
}

func (s State) row() stateRow {
	for _, row := range states {
		if row.state == s {
			return row
		}
	}
	return stateRow{state: s, style: screen.Faint}
}

// Meaning explains the state to an operator.
func (s State) Meaning() string { return s.row().meaning }

// Style is how the state looks on a terminal and on the web page.
func (s State) Style() screen.Style { return s.row().style }

// ExitCode is what `svcproxy status` exits with for a service in this state.
func (s State) ExitCode() int { return s.row().exit }

// Trouble says whether an operator should look at a service in this state.
func (s State) Trouble() bool { return s.Style() == screen.Bad || s.Style() == screen.Warn }

// VirtualStates lists the states that a virtual server can have.
func VirtualStates() []State { return []State{Conflicting, Missing, NoBackends, Serving} }

// State says whether a virtual server is served.
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
var endpointStates = []endpointRow{
	{EndpointServing, "it gets new connections", screen.Good},
	{EndpointDraining, "it keeps its connections and gets no new ones until they end", screen.Warn},
	{EndpointPaused, "the table gives it weight 0: it keeps its connections and gets no new ones", screen.Faint},
	{EndpointUnused, "it gets no connections; `reason` says why", screen.Faint},
	{EndpointMissing, "it is wanted and not in the kernel", screen.Bad},
}

type endpointRow struct {
	state   EndpointState
	meaning string
	style   screen.Style
}

// EndpointStates lists every state of an endpoint.
func EndpointStates() []EndpointState {
	list := make([]EndpointState, len(endpointStates))
	for i, row := range endpointStates {
		list[i] = row.state
	}
	return list
}

func (s EndpointState) row() endpointRow {
	for _, row := range endpointStates {
		if row.state == s {
			return row
		}
	}
	return endpointRow{state: s, style: screen.Faint}
}

// Meaning explains the state to an operator.
func (s EndpointState) Meaning() string { return s.row().meaning }

// Style is how the state looks on a terminal and on the web page.
func (s EndpointState) Style() screen.Style { return s.row().style }
