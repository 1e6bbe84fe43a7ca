package events

import "github.com/svcproxy/svcproxy/proxy/screen"

// Kind says what sort of thing happened.
type Kind string

// The kinds of events.
const (
	Started   Kind = "started"
	Table     Kind = "table"
	Node      Kind = "node"
	Config    Kind = "config"
	Drift     Kind = "drift"
	Draining  Kind = "draining"
	Drained   Kind = "drained"
	Refused   Kind = "refused"
	Accepted  Kind = "accepted"
	Failed    Kind = "failed"
	Recovered Kind = "recovered"
	Conflict  Kind = "conflict"
	LeftOut   Kind = "leftOut"
	Warning   Kind = "warning"
	Sysctl    Kind = "sysctl"

	Condition     Kind = "condition"
	ConditionOver Kind = "conditionOver"

	ModeFallback  Kind = "modeFallback"
	ModeAvailable Kind = "modeAvailable"

	EndpointDown Kind = "endpointDown"
	EndpointUp   Kind = "endpointUp"
	AgentAsks    Kind = "agentAsks"
	Flapping     Kind = "flapping"
	Calm         Kind = "calm"
	Panic        Kind = "panic"
	PanicOver    Kind = "panicOver"
	Backups      Kind = "backups"
	AllDown      Kind = "allDown"
	EnoughUp     Kind = "enoughUp"
	MassFailure  Kind = "massFailure"
	MassOver     Kind = "massFailureOver"
	Blind        Kind = "checkerBlind"
	Sees         Kind = "checkerSees"
	Order        Kind = "order"
	OrderBack    Kind = "orderTakenBack"
	OrderOver    Kind = "orderOver"

	Announced Kind = "announced"
	Withdrawn Kind = "withdrawn"

	Lost Kind = "lost"
)

// kinds is the only list of kinds. The web page reads it; a test holds JSON.md
// to it.
var kinds = screen.Terms[Kind]{
	{Word: Started, Meaning: "the first sync ended", Style: screen.Good},
	{Word: Table, Meaning: "the sources changed what is served", Style: screen.Plain},
	{Word: Node, Meaning: "the node's addresses changed what is served", Style: screen.Plain},
	{Word: Config, Meaning: "the configuration changed", Style: screen.Plain},
	{Word: Drift, Meaning: "another program's change of the kernel was repaired", Style: screen.Warn},
	{Word: Draining, Meaning: "real servers keep connections and get no new ones", Style: screen.Warn},
	{Word: Drained, Meaning: "real servers were removed after their drain", Style: screen.Plain},
	{Word: Refused, Meaning: "a source delivered something invalid", Style: screen.Bad},
	{Word: Accepted, Meaning: "all that a source delivers is valid again", Style: screen.Good},
	{Word: Failed, Meaning: "a sync failed, in whole or in part", Style: screen.Bad},
	{Word: Recovered, Meaning: "a sync succeeded after one that failed", Style: screen.Good},
	{Word: Conflict, Meaning: "another program has a virtual server, or another host a VIP", Style: screen.Bad},
	{Word: LeftOut, Meaning: "a service, or a part of one, is not served", Style: screen.Bad},
	{Word: Warning, Meaning: "something, such as a firewall, may keep clients away", Style: screen.Warn},
	{Word: Sysctl, Meaning: "a kernel parameter was changed", Style: screen.Plain},
	{Word: Condition, Meaning: "something is wrong until the next `conditionOver` of the same", Style: screen.Bad},
	{Word: ConditionOver, Meaning: "it is no longer wrong", Style: screen.Good},
	{Word: ModeFallback, Meaning: "the preferred mode cannot be used, so another one serves", Style: screen.Warn},
	{Word: ModeAvailable, Meaning: "a preferred mode can be used after a restart", Style: screen.Warn},
	{Word: EndpointDown, Meaning: "the health check of an endpoint fails", Style: screen.Bad},
	{Word: EndpointUp, Meaning: "the health check of an endpoint succeeds again", Style: screen.Good},
	{Word: AgentAsks, Meaning: "an agent asks for a drain or for maintenance, or no longer does", Style: screen.Plain},
	{Word: Flapping, Meaning: "an endpoint changes too often; its changes are no longer events", Style: screen.Warn},
	{Word: Calm, Meaning: "an endpoint no longer changes too often", Style: screen.Good},
	{Word: Panic, Meaning: "too few endpoints of a service are up, so all serve", Style: screen.Bad},
	{Word: PanicOver, Meaning: "enough are up again", Style: screen.Good},
	{Word: Backups, Meaning: "the backups of a service serve: no other endpoint is up", Style: screen.Warn},
	{Word: AllDown, Meaning: "no endpoint of a service is up, and none serves", Style: screen.Bad},
	{Word: EnoughUp, Meaning: "the endpoints of a service that are up serve again", Style: screen.Good},
	{Word: MassFailure, Meaning: "more than half of all targets went down: last states count for a minute", Style: screen.Bad},
	{Word: MassOver, Meaning: "the present states count", Style: screen.Plain},
	{Word: Blind, Meaning: "no probe tells anything, by a fault of this node", Style: screen.Bad},
	{Word: Sees, Meaning: "probes tell something again", Style: screen.Good},
	{Word: Order, Meaning: "the operator drained, disabled or weighted endpoints or the node", Style: screen.Plain},
	{Word: OrderBack, Meaning: "the operator took an order back", Style: screen.Plain},
	{Word: OrderOver, Meaning: "an order ended by itself", Style: screen.Plain},
	{Word: Announced, Meaning: "routing daemons are told of a VIP or its new metric", Style: screen.Good},
	{Word: Withdrawn, Meaning: "a VIP is no longer announced to routing daemons", Style: screen.Warn},
	{Word: Lost, Meaning: "events were forgotten before this reader got them", Style: screen.Warn},
}

// Kinds lists every kind of event.
func Kinds() []Kind { return kinds.Words() }

// known reports whether this version has the kind.
func (k Kind) known() bool { return kinds.Find(k).Meaning != "" }

// Meaning explains the kind to an operator.
func (k Kind) Meaning() string { return kinds.Find(k).Meaning }

// Style is how the kind looks on a terminal and on the web page.
func (k Kind) Style() screen.Style { return kinds.Find(k).Style }
