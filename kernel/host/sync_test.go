package host_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// A daemon that svcproxy started is known by a later process, which stops it. Another program's stays.
func TestSyncDaemonIsOwnedByARecord(t *testing.T) {
	o := host.Options{Names: kernel.DefaultNames, StateDir: t.TempDir()}
	k := openWith(t, o)
	d := kernel.SyncDaemon{Role: kernel.SyncMaster, Link: "lo", ID: 9, MaxLen: 1400, Group: netip.MustParseAddr("224.0.0.81"), Port: 8848, TTL: 1}
	apply(t, k, kernel.State{Daemons: []kernel.SyncDaemon{d}}, read(t, k))
	kerneltest.Run(t, "ipvsadm", "--start-daemon", "backup", "--mcast-interface", "lo", "--syncid", "4")
	k.Close()

	k, err := host.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	have := read(t, k)
	if len(have.Daemons) != 2 || !have.OwnsDaemon(d) || have.OwnsDaemon(have.Daemons[1]) {
		t.Errorf("daemons %v, saved %v", have.Daemons, have.Saved)
	}
	d.ID = 10
	apply(t, k, kernel.State{Daemons: []kernel.SyncDaemon{d}}, have)
	if have = read(t, k); !have.OwnsDaemon(d) {
		t.Errorf("after a change: daemons %v, saved %v", have.Daemons, have.Saved)
	}
	apply(t, k, kernel.State{}, have)
	if said := kerneltest.Run(t, "ipvsadm", "-l", "--daemon"); strings.Contains(said, "master") || !strings.Contains(said, "backup sync daemon") {
		t.Errorf("after cleanup ipvsadm says %q", said)
	}
	if have = read(t, k); len(have.Saved) != 0 {
		t.Errorf("after cleanup saved %v", have.Saved)
	}
}
