package explain_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/explain"
	"github.com/svcproxy/svcproxy/sources"
)

// Whom a service does not let in gets nothing, whatever the rules say.
func TestClientsOfAService(t *testing.T) {
	deny := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	rate := sources.Rate{N: 50, Per: 1e9}
	for _, test := range []struct {
		clients   sources.Clients
		anySource bool
		fate      explain.Fate
		has       string
	}{
		{sources.Clients{Deny: deny}, false, explain.Dropped, "192.0.2.9 is in 192.0.2.0/24, which service"},
		{sources.Clients{Deny: deny, Reject: true}, false, explain.Refused, "refused because 192.0.2.9 is in"},
		{sources.Clients{Deny: deny}, true, explain.Served, ", if service web lets the client in"},
		{sources.Clients{AllowLists: []string{"office"}}, false, explain.Dropped, "in nothing that service"},
		{sources.Clients{Allow: deny}, false, explain.Served, "served by"},
		{sources.Clients{Rate: rate, Burst: 100}, false, explain.Served, "within the limits of service"},
	} {
		facts := factsOf(t, []string{"trace-cluster-ip", "ipvs"})
		facts.AnySource = test.anySource
		for i := range facts.Fronts.Table.Services.Len() {
			facts.Fronts.Table.Services.At(i).Clients = &test.clients
		}
		p := mustPacket(t)
		p.Src = netip.MustParseAddrPort("192.0.2.9:40000")
		a := explain.Explain(facts, p)
		if a.Fate != test.fate || !strings.Contains(a.Sentence, test.has) {
			t.Errorf("%+v: %s: %s", test.clients, a.Fate, a.Sentence)
		}
	}
}
