package ipvs

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Daemons are read as ipvsadm starts them, and ipvsadm reads what Table starts. Without a daemon, a
// reading is one system call.
func TestKernelSyncDaemons(t *testing.T) {
	table := open(t)
	kerneltest.Run(t, "ip", "link", "add", "sync0", "mtu", "1400", "type", "dummy")
	kerneltest.Run(t, "ip", "addr", "add", "10.9.0.1/24", "dev", "sync0")
	kerneltest.Run(t, "ip", "link", "set", "sync0", "up")
	check := func(want ...kernel.SyncDaemon) {
		t.Helper()
		got, err := table.SyncDaemons()
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "daemons", got, want)
	}
	before := table.Stats()
	check()
	if s := table.Stats(); s.Getsockopts-before.Getsockopts != 1 || s.Sends != before.Sends {
		t.Errorf("a reading without daemons cost %+v after %+v", s, before)
	}

	usual := netip.MustParseAddr("224.0.0.81")
	kerneltest.Run(t, "ipvsadm", "--start-daemon", "backup", "--mcast-interface", "sync0", "--syncid", "3")
	backup := kernel.SyncDaemon{Role: kernel.SyncBackup, Link: "sync0", ID: 3, MaxLen: 1472, Group: usual, Port: 8848, TTL: 1}
	check(backup)

	master := kernel.SyncDaemon{Role: kernel.SyncMaster, Link: "sync0", ID: 255, MaxLen: 1300, Group: netip.MustParseAddr("239.1.2.3"), Port: 9000, TTL: 5}
	start := func(d kernel.SyncDaemon) error { t.Helper(); return table.StartSync(d) }
	if err := start(master); err != nil {
		t.Fatal(err)
	}
	check(master, backup)
	said := kerneltest.Run(t, "ipvsadm", "-l", "--daemon")
	for _, word := range []string{"master sync daemon", "mcast=sync0", "syncid=255", "maxlen=1300", "group=239.1.2.3", "port=9000", "ttl=5"} {
		if !strings.Contains(said, word) {
			t.Errorf("ipvsadm says %q, want %s", said, word)
		}
	}
	if err := start(master); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second master: %v", err)
	}
	if err := table.StopSync(kernel.SyncBackup); err != nil {
		t.Fatal(err)
	}
	check(master)
	// Its link is removed, and another one gets the name.
	unbound := master
	unbound.Unbound = true
	kerneltest.Run(t, "ip", "link", "del", "sync0")
	check(unbound)
	kerneltest.Run(t, "ip", "link", "add", "sync0", "mtu", "1400", "type", "dummy")
	kerneltest.Run(t, "ip", "addr", "add", "10.9.0.1/24", "dev", "sync0")
	kerneltest.Run(t, "ip", "link", "set", "sync0", "up")
	check(unbound)
	if err := errors.Join(table.StopSync(kernel.SyncMaster), start(master)); err != nil {
		t.Fatal(err)
	}
	check(master)
	if err := table.StopSync(kernel.SyncBackup); err == nil || !strings.Contains(err.Error(), "no sync daemon") {
		t.Errorf("no backup to stop: %v", err)
	}
	backup.Link = "none"
	if err := start(backup); err == nil || !strings.Contains(err.Error(), "no link none") {
		t.Errorf("a link that does not exist: %v", err)
	}
	if err := table.StopSync(kernel.SyncMaster); err != nil {
		t.Fatal(err)
	}
	check()
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return
	}
	kerneltest.Run(t, "ip", "addr", "add", "fd09::1/64", "dev", "sync0", "nodad")
	six := kernel.SyncDaemon{Role: kernel.SyncMaster, Link: "sync0", ID: 1, MaxLen: 1200, Group: netip.MustParseAddr("ff02::81"), Port: 8848, TTL: 1}
	if err := start(six); err != nil {
		t.Fatal(err)
	}
	check(six)
	// At once: its thread may not have run yet.
	if err := table.StopSync(kernel.SyncMaster); err != nil {
		t.Fatal(err)
	}
	check()
	for range 20 {
		if err := errors.Join(start(master), table.StopSync(kernel.SyncMaster)); err != nil {
			t.Fatal(err)
		}
		check()
	}
}

// What is written for a daemon is read as the same daemon.
func TestSyncDaemonRoundTrip(t *testing.T) {
	for _, want := range []kernel.SyncDaemon{
		{Role: kernel.SyncMaster, Link: "eth1", ID: 7, MaxLen: 1400, Group: netip.MustParseAddr("224.0.0.81"), Port: 8848, TTL: 1},
		{Role: kernel.SyncBackup, Link: "eth1.100", ID: 255, Group: netip.MustParseAddr("ff02::81"), Port: 1, TTL: 255},
	} {
		got, err := decodeDaemon(daemonMessage(want))
		if err != nil || got != want {
			t.Errorf("%v and %v, want %v", got, err, want)
		}
	}
}

// daemonMessage is the payload of a message about a daemon.
func daemonMessage(d kernel.SyncDaemon) []byte {
	var sent []byte
	dialer := nl.Dialer{Wrap: func(_ int, t nl.Transport) nl.Transport { return tape{t, &sent} }}
	c, err := dialer.Dial(unix.NETLINK_GENERIC)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	var b nl.Batch
	putDaemon(&b, 1, d)
	c.Send(&b)
	return sent[unix.SizeofNlMsghdr:]
}

// tape keeps what was sent and never answers.
type tape struct {
	nl.Transport
	sent *[]byte
}

func (t tape) Send(p []byte) error         { *t.sent = slices.Clone(p); return nil }
func (t tape) Receive([]byte) (int, error) { return 0, nl.ErrTimeout }

func FuzzDecodeDaemon(f *testing.F) {
	f.Add(daemonMessage(kernel.SyncDaemon{Role: kernel.SyncMaster, Link: "eth1", ID: 7, MaxLen: 1400, Group: netip.MustParseAddr("224.0.0.81"), Port: 8848, TTL: 1}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if d, err := decodeDaemon(payload); err == nil && !d.Group.IsValid() {
			t.Error("a daemon without a group")
		}
	})
}
