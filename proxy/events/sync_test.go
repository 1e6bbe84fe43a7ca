package events

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// Where rules balance, the removal of tracked connections ends a drain. It is neither drift nor a change of the table.
func TestEndOfRuleDrain(t *testing.T) {
	key := kernel.RealKey{
		Virtual: kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP), Addr: netip.MustParseAddrPort("10.2.0.1:8080"),
	}
	for _, cause := range []proxy.Cause{proxy.CausePeriod, proxy.CauseDrain} {
		causes := proxy.CausesOf(cause)
		before := &proxy.Snapshot{Drains: []kernel.Drain{{Real: key, Since: time.Unix(1000, 0)}}}
		now := &proxy.Snapshot{Report: proxy.Report{Causes: causes, Plan: kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Remove, Object: kernel.Flow{Key: key}}}}}}
		if list := ofSync(before, now); len(list) != 1 || list[0].Kind != Drained {
			t.Errorf("%s: %v", cause, list)
		}
	}
}

// A reload is not why an API server changed something while it ran.
func TestChangeNamesTheAskerOfFilesAlone(t *testing.T) {
	for source, want := range map[string]string{"file": "root (uid 0)", "static": "root (uid 0)", sources.APIServer: ""} {
		now := &proxy.Snapshot{
			Sourced: true,
			Delta:   sources.Delta{Changes: []sources.Change{{Namespace: "default", Name: "web", Source: source, Was: -1, Service: true}}},
			Report:  proxy.Report{Causes: proxy.CausesOf(proxy.CauseTable), Changed: time.Unix(1000, 0)}, Asker: "root (uid 0)",
		}
		if e, ok := change(new(proxy.Snapshot), now); !ok || e.By != want {
			t.Errorf("%s: by %q, %t", source, e.By, ok)
		}
	}
}

// Repairs after a change of rules name the processes that made it.
func TestDriftNamesTheWriter(t *testing.T) {
	op := kernel.Op{Verb: kernel.Add, Object: kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES"}}
	now := &proxy.Snapshot{Report: proxy.Report{Causes: proxy.CausesOf(proxy.CauseRules), By: "nft (pid 7)"}}
	now.Report.Plan.Ops, now.Report.Repairs = []kernel.Op{op}, []kernel.Op{op}
	const want = "after nft (pid 7) changed rules: + chain "
	if e := ofSync(new(proxy.Snapshot), now); len(e) != 1 || e[0].Kind != Drift || !strings.HasPrefix(e[0].Text, want) {
		t.Errorf("%+v", e)
	}
	now.Report.Plan.Ops, now.Report.Repairs = nil, nil
	if e := ofSync(new(proxy.Snapshot), now); len(e) != 0 {
		t.Errorf("nothing of ours changed: %+v", e)
	}
}

// A sync that undoes drift and programs a new table is two events: neither hides the other.
func TestDriftBesideAChange(t *testing.T) {
	repair := kernel.Op{Verb: kernel.Add, Object: kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES"}}
	added := kernel.Op{Verb: kernel.Add, Object: kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SVC-A"}}
	now := &proxy.Snapshot{Report: proxy.Report{Causes: proxy.CausesOf(proxy.CauseTable)}}
	now.Report.Plan.Ops, now.Report.Repairs = []kernel.Op{repair, added}, []kernel.Op{repair}
	e := ofSync(new(proxy.Snapshot), now)
	if len(e) != 2 || e[0].Kind != Drift || e[0].Ops.Add != 1 || e[1].Kind != Table || e[1].Ops.Add != 1 {
		t.Errorf("%+v", e)
	}
}
