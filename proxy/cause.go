package proxy

import "slices"

// Cause is a reason for a sync, for people to read. A cause decides nothing: a sync does the same whatever its causes
// are (TestCausesDecideNothing).
type Cause string

// The causes. CauseNode, CauseConfig and CauseAsked are what Proxy.Check is
// called with.
const (
	CauseStart  Cause = "start"
	CauseTable  Cause = "table"
	CauseRetry  Cause = "retry"
	CauseProbe  Cause = "probe"
	CauseNode   Cause = "node"
	CauseConfig Cause = "config"
	CauseAsked  Cause = "asked"
	CauseHealth Cause = "health"
	CauseRules  Cause = "rules"
	CausePeriod Cause = "period"
	CauseDrain  Cause = "drain"
)

// causes is the only list of causes, the ones that tell most first.
var causes = []struct {
	cause   Cause
	meaning string
}{
	{CauseStart, "the first sync"},
	{CauseTable, "a source delivered a table"},
	{CauseRetry, "the last sync failed"},
	{CauseProbe, "the probe of a VIP ended"},
	{CauseNode, "an address or a listener changed"},
	{CauseConfig, "the configuration changed"},
	{CauseAsked, "a signal or command asked"},
	{CauseRules, "another program changed rules of nftables"},
	{CauseHealth, "health or an order changed"},
	{CausePeriod, "a periodic check was due"},
	{CauseDrain, "connections of a drain were counted"},
}

// Causes lists every cause.
func Causes() []Cause {
	list := make([]Cause, len(causes))
	for i, c := range causes {
		list[i] = c.cause
	}
	return list
}

// Meaning explains the cause to an operator; "" for a cause that is not in
// Causes.
func (c Cause) Meaning() string {
	for _, known := range causes {
		if known.cause == c {
			return known.meaning
		}
	}
	return ""
}

// CauseSet is a set of causes. Bit i is the cause at index i of Causes.
type CauseSet uint16

// CausesOf returns the set of some causes.
func CausesOf(list ...Cause) (s CauseSet) {
	for i, known := range causes {
		if slices.Contains(list, known.cause) {
			s |= 1 << i
		}
	}
	return s
}

// Has reports whether a cause is in the set.
func (s CauseSet) Has(c Cause) bool { return s&CausesOf(c) != 0 }

// First returns the cause that tells most, where there is room for one; "" for the empty set.
func (s CauseSet) First() Cause {
	for i, known := range causes {
		if s&(1<<i) != 0 {
			return known.cause
		}
	}
	return ""
}
