package plan_test

import (
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

const (
	master  = "--start-daemon master --mcast-interface eth1 --syncid 7 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1\n"
	asRead  = "--start-daemon master --mcast-interface eth1 --syncid 7 --sync-maxlen 1472 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1\n"
	other   = "--start-daemon master --mcast-interface eth1 --syncid 8 --sync-maxlen 1472 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1\n"
	unbound = "--start-daemon master --mcast-interface eth1 --syncid 7 --sync-maxlen 1472 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1 # unbound: its link was removed\n"
	ours    = `#: saved ipvs.sync.master before "" ours "--start-daemon master --mcast-interface eth1 --syncid 7 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1"` + "\n"
	ours8   = `#: saved ipvs.sync.master before "" ours "--start-daemon master --mcast-interface eth1 --syncid 8 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1"` + "\n"
)

// A daemon of another program is never touched. One that runs as wanted is enough, whoever started it.
func TestSyncDaemons(t *testing.T) {
	for _, c := range []struct {
		name, want, have string
		ops              []string
		warnings         int
	}{
		{name: "none"},
		{name: "start", want: master, ops: []string{"+ " + master}},
		{name: "removed by hand", want: master, have: ours, ops: []string{"+ " + master}},
		{name: "runs", want: master, have: asRead + ours},
		{name: "adopted", want: master, have: asRead},
		{name: "other values", want: master, have: other + ours8, ops: []string{"~ " + master}},
		{name: "its link was removed", want: master, have: unbound + ours, ops: []string{"~ " + master}},
		{name: "foreign, its link was removed", want: master, have: unbound, warnings: 1},
		{name: "foreign, other values", want: master, have: other, warnings: 1},
		{name: "foreign, since ours ended", want: master, have: other + ours, warnings: 1},
		{name: "unwanted", have: asRead + ours, ops: []string{"- --stop-daemon master\n"}},
		{name: "foreign, unwanted", have: asRead},
		{name: "not every source has spoken", want: "#: hold\n", have: asRead + ours},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, have := parsed(t, c.want), parsed(t, c.have)
			p := plan.Once(want.State, have)
			var ops []string
			for _, op := range p.Ops {
				if op.Verb == kernel.Change {
					op.Was = nil
				}
				ops = append(ops, op.String()+"\n")
			}
			if !slices.Equal(ops, c.ops) || len(p.Warnings) != c.warnings {
				t.Errorf("ops %q, want %q; warnings %q", ops, c.ops, p.Warnings)
			}
			after, ok := plan.Applied(have, want.State, p)
			if next := plan.Once(want.State, after); !ok || !next.Empty() {
				t.Errorf("then %v, %v", ok, next)
			}
			if c.want == master && c.warnings == 0 && c.name != "adopted" && !after.OwnsDaemon(after.Daemons[0]) {
				t.Errorf("svcproxy does not own what it started: %s", after)
			}
		})
	}
}

func parsed(t *testing.T, text string) kernel.Observed {
	t.Helper()
	o, err := kernel.ParseObserved(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
