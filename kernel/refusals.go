package kernel

import "strings"

// Refusals count the first packets of connections to a service by what its limits did with them.
type Refusals map[Reason]uint64

// Reason is why a packet of a client is refused. JSON and metrics have it.
type Reason string

// The reasons. OverRate and OverConnections are those of limits.
const (
	Denied          Reason = "denied" // by allow or deny
	OverRate        Reason = "rate"
	OverConnections Reason = "connections"
	MeterFull       Reason = "full"      // the meter had no room for the client, and the service is closed then
	Unmetered       Reason = "unmetered" // the same, but the service is open then: the client is let in
)

// reasons are those that refuse, in words for people.
var reasons = []struct {
	Reason
	text string
}{
	{Denied, "by allow or deny"}, {OverRate, "over the rate"}, {OverConnections, "over the number of connections"},
	{MeterFull, "without room in the meter"},
}

// Reasons lists those that refuse.
func Reasons() (list []Reason) {
	for _, r := range reasons {
		list = append(list, r.Reason)
	}
	return list
}

// String is the reason in words.
func (r Reason) String() string {
	for _, x := range reasons {
		if x.Reason == r {
			return x.text
		}
	}
	return string(r)
}

// Refusal returns the service whose limits a rule is of, by its hash, and what becomes of packets that match. ok is
// false if the rule refuses none.
func (n Names) Refusal(chain, rule string) (hash string, why Reason, ok bool) {
	rest, _ := n.cutPrefix(chain)
	if hash, ok = clientsHash(rest); !ok {
		return "", "", false
	}
	target := Target(rule)
	_, set, _ := strings.Cut(rule, "! --match-set ")
	set, _, _ = strings.Cut(set, " ")
	_, spec, _ := n.limitSpec(set)
	switch {
	case strings.Contains(rule, "--limit-above "):
		return hash, OverRate, true
	case strings.Contains(rule, "--connlimit-above "):
		return hash, OverConnections, true
	case spec.Type.ByPackets() && target == "":
		return hash, Unmetered, true
	case spec.Type.ByPackets():
		return hash, MeterFull, true
	}
	return hash, Denied, target != "" && target != n.Allowed(hash)
}
