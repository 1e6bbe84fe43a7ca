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
	Lost      Kind = "lost"
)

// kinds is the only list of kinds. The web page reads it; a test holds JSON.md
// to it.
var kinds = []kindRow{
	{Started, "the first sync ended", screen.Good},
	{Table, "the sources changed what is to be served", screen.Plain},
	{Node, "the node's addresses changed what is to be served", screen.Plain},
	{Config, "the configuration changed", screen.Plain},
	{Drift, "another program changed the kernel, and svcproxy repaired it", screen.Warn},
	{Draining, "real servers get no new connections until theirs have ended", screen.Warn},
	{Drained, "real servers were removed: their connections ended, or the drain timeout did", screen.Plain},
	{Refused, "a source delivered something invalid", screen.Bad},
	{Accepted, "a source delivers nothing invalid any more", screen.Good},
	{Failed, "a sync failed, in whole or in part", screen.Bad},
	{Recovered, "a sync succeeded after one that failed, or everything is served again", screen.Good},
	{Conflict, "another program has a wanted virtual server, or another host a VIP", screen.Bad},
	{LeftOut, "a service, or a part of one, is not served: another service has it, or this node cannot serve it", screen.Bad},
	{Warning, "something keeps clients from what is served, such as a firewall", screen.Warn},
	{Sysctl, "a kernel parameter was changed", screen.Plain},
	{Lost, "events were forgotten before they were read; never kept, only sent to a reader", screen.Warn},
}

type kindRow struct {
	kind    Kind
	meaning string
	style   screen.Style
}

// Kinds lists every kind of event.
func Kinds() []Kind {
	list := make([]Kind, len(kinds))
	for i, row := range kinds {
		list[i] = row.kind
	}
	return list
}

func (k Kind) row() kindRow {
	for _, row := range kinds {
		if row.kind == k {
			return row
		}
	}
	return kindRow{kind: k}
}

// Meaning explains the kind to an operator.
func (k Kind) Meaning() string { return k.row().meaning }

// Style is how the kind looks on a terminal and on the web page.
func (k Kind) Style() screen.Style { return k.row().style }
