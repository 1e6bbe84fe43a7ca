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

	VIPHere    Kind = "vipHere"
	VIPAway    Kind = "vipAway"
	Offered    Kind = "offered"
	NotOffered Kind = "notOffered"

	Lost Kind = "lost"
)

// kinds is the only list of kinds. The web page reads it; a test holds JSON.md
// to it.
var kinds = screen.Terms[Kind]{
	{Word: Started, Meaning: "the first sync ended", Style: screen.Good},
	{Word: Table, Meaning: "services changed", Style: screen.Plain},
	{Word: Node, Meaning: "node addresses changed", Style: screen.Plain},
	{Word: Config, Meaning: "the configuration changed", Style: screen.Plain},
	{Word: Drift, Meaning: "another program's change was repaired", Style: screen.Warn},
	{Word: Draining, Meaning: "real servers drain", Style: screen.Warn},
	{Word: Drained, Meaning: "drained real servers were removed", Style: screen.Plain},
	{Word: Refused, Meaning: "a source delivered something invalid", Style: screen.Bad},
	{Word: Accepted, Meaning: "the source is valid again", Style: screen.Good},
	{Word: Failed, Meaning: "a sync failed, perhaps partly", Style: screen.Bad},
	{Word: Recovered, Meaning: "a sync succeeded again", Style: screen.Good},
	{Word: Conflict, Meaning: "another program or host has an address", Style: screen.Bad},
	{Word: LeftOut, Meaning: "something is not served", Style: screen.Bad},
	{Word: Warning, Meaning: "something may keep clients away", Style: screen.Warn},
	{Word: Sysctl, Meaning: "a kernel parameter was changed", Style: screen.Plain},
	{Word: Condition, Meaning: "something is wrong, until `conditionOver`", Style: screen.Bad},
	{Word: ConditionOver, Meaning: "a condition is over", Style: screen.Good},
	{Word: ModeFallback, Meaning: "the preferred mode cannot be used", Style: screen.Warn},
	{Word: ModeAvailable, Meaning: "a restart could use it", Style: screen.Warn},
	{Word: EndpointDown, Meaning: "an endpoint is down", Style: screen.Bad},
	{Word: EndpointUp, Meaning: "an endpoint is up again", Style: screen.Good},
	{Word: AgentAsks, Meaning: "what an agent asks for changed", Style: screen.Plain},
	{Word: Flapping, Meaning: "an endpoint changes too often for events", Style: screen.Warn},
	{Word: Calm, Meaning: "an endpoint is stable again", Style: screen.Good},
	{Word: Panic, Meaning: "too few are up, so all serve", Style: screen.Bad},
	{Word: PanicOver, Meaning: "enough are up again", Style: screen.Good},
	{Word: Backups, Meaning: "only backups are up, so they serve", Style: screen.Warn},
	{Word: AllDown, Meaning: "none is up, and none serves", Style: screen.Bad},
	{Word: EnoughUp, Meaning: "those that are up serve again", Style: screen.Good},
	{Word: MassFailure, Meaning: "most targets failed: last states hold", Style: screen.Bad},
	{Word: MassOver, Meaning: "present states count again", Style: screen.Plain},
	{Word: Blind, Meaning: "this node cannot probe", Style: screen.Bad},
	{Word: Sees, Meaning: "this node can probe again", Style: screen.Good},
	{Word: Order, Meaning: "an order was given", Style: screen.Plain},
	{Word: OrderBack, Meaning: "an order was taken back", Style: screen.Plain},
	{Word: OrderOver, Meaning: "an order ended by itself", Style: screen.Plain},
	{Word: Announced, Meaning: "a VIP or its new metric is announced", Style: screen.Good},
	{Word: Withdrawn, Meaning: "a VIP is no longer announced", Style: screen.Warn},
	{Word: VIPHere, Meaning: "keepalived has given this node a VIP", Style: screen.Warn},
	{Word: VIPAway, Meaning: "keepalived has taken a VIP from this node", Style: screen.Warn},
	{Word: Offered, Meaning: "this node can serve a VIP again, as keepalived is told", Style: screen.Good},
	{Word: NotOffered, Meaning: "this node cannot serve a VIP, as keepalived is told", Style: screen.Warn},
	{Word: Lost, Meaning: "this reader missed events", Style: screen.Warn},
}

// Kinds lists every kind of event.
func Kinds() []Kind { return kinds.Words() }

// known reports whether this version has the kind.
func (k Kind) known() bool { return kinds.Find(k).Meaning != "" }

// Meaning explains the kind to an operator.
func (k Kind) Meaning() string { return kinds.Find(k).Meaning }

// Style is how the kind looks on a terminal and on the web page.
func (k Kind) Style() screen.Style { return kinds.Find(k).Style }
