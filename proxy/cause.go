package proxy

// Cause is why a sync ran.
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

// causes is the only list of causes. If several apply to a sync, it gets the
// first of them.
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

// verifies reports whether the sync only compares: what it then changes, another program had changed.
func (c Cause) verifies() bool { return c == CausePeriod || c == CauseAsked || c == CauseRules }

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
