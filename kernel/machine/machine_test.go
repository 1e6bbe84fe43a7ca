package machine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tree writes files below a folder, by their paths.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRead(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/1/comm":               "systemd\n",
		"proc/70/comm":              "kube-proxy\n",
		"proc/71/comm":              "bash\n",
		"proc/72/comm":              "chronyd\n",
		"proc/sys/kernel/osrelease": "6.1.0\n",
		"proc/sys/net/ipv4/conf/eth0.5/rp_filter":   "1\n",
		"proc/sys/net/netfilter/nf_conntrack_count": "7\n",
		"proc/sys/net/netfilter/nf_conntrack_max":   "100\n",
		"proc/self/net/netstat":                     "TcpExt: A IPReversePathFilter\nTcpExt: 1 42\nIpExt: B\nIpExt: 2\n",
		"proc/self/net/snmp":                        "Icmp: InMsgs OutDestUnreachs\nIcmp: 3 7\n",
		"proc/self/net/softnet_stat":                "00000010 00000002 0\n00000020 0000000a 0\n",
		"proc/self/net/stat/nf_conntrack":           "entries insert_failed drop early_drop\n00000001 0000000f 00000003 00000001\n00000001 00000001 00000010 00000000\n",
		"sys/module/ip_vs/parameters/conn_tab_bits": "18\n",
		"lib/modules/6.1.0/modules.dep":             "kernel/net/netfilter/ipvs/ip_vs.ko: kernel/x.ko\nkernel/net/netfilter/ipvs/ip_vs_rr.ko.xz:\n",
		"lib/modules/6.1.0/modules.builtin":         "kernel/net/nf-conntrack.ko\n",
		"etc/modprobe.d/no.conf":                    "# install x /bin/false\nblacklist ip_vs\ninstall ip-set /usr/bin/true\ninstall dummy /bin/false\ninstall ok /sbin/modprobe --ignore-install ok\n",
		"usr/lib/systemd/system/svcproxy.service":   "[Service]\n",
		"run/systemd/system/x":                      "",
		"var/lib/svcproxy/orders":                   "{}",
	})
	f := Read(Options{Root: root, Sysctls: []string{"net.ipv4.conf.eth0/5.rp_filter", "net.none"}, Folders: []string{"/var/lib/svcproxy", "/none"}, Unit: "svcproxy.service"})
	if f.Release != "6.1.0" || f.Unbooted || f.ConnTabBits != 18 || len(f.Lacks) > 0 {
		t.Errorf("%+v", f)
	}
	if want := (Counters{RPFilter: 42, Refused: 7, Backlog: 12, Conntrack: Conntrack{Entries: 7, Max: 100, NoRoom: 20, NoEntry: 16}}); f.Before != want || f.After != want {
		t.Errorf("counters %+v", f.Before)
	}
	if want := []Process{{70, "kube-proxy"}, {72, "chronyd"}}; !slices.Equal(f.Processes, want) || f.Clock.Daemon != "chronyd" {
		t.Errorf("processes %v, clock %+v", f.Processes, f.Clock)
	}
	m := f.Modules
	if !m.Known || !m.Loaded["ip_vs"] || !m.Loaded["nf_conntrack"] || !m.Files["ip_vs_rr"] || m.Loaded["ip_vs_rr"] {
		t.Errorf("modules %+v", m)
	}
	if len(m.Barred) != 2 || m.Barred["ip_set"] == "" || m.Barred["dummy"] == "" {
		t.Errorf("barred %v", m.Barred)
	}
	if want := (Unit{Systemd: true, Installed: true}); f.Unit != want {
		t.Errorf("unit %+v", f.Unit)
	}
	if f.Sysctls["net.ipv4.conf.eth0/5.rp_filter"] != "1" || len(f.Sysctls) != 1 {
		t.Errorf("sysctls %v", f.Sysctls)
	}
	d := f.Folders[0]
	if !d.Exists || d.Changed != "/var/lib/svcproxy/orders" || d.Bytes == 0 || f.Folders[1].Exists {
		t.Errorf("folders %+v", f.Folders)
	}
}

func TestUnit(t *testing.T) {
	root := tree(t, map[string]string{
		"lib/systemd/system/svcproxy.service":                              "[Service]\n",
		"etc/systemd/system/multi-user.target.wants/svcproxy.service/none": "",
	})
	r := reader{o: Options{Root: root, Unit: "svcproxy.service"}}
	if want := (Unit{Installed: true, Enabled: true}); r.unit() != want {
		t.Errorf("enabled: %+v", r.unit())
	}
	if err := os.Symlink(os.DevNull, filepath.Join(root, "etc/systemd/system/svcproxy.service")); err != nil {
		t.Fatal(err)
	}
	if u := r.unit(); u.Masked != "/etc/systemd/system/svcproxy.service" {
		t.Errorf("masked: %+v", u)
	}
}

func TestUnbooted(t *testing.T) {
	r := reader{o: Options{Root: tree(t, map[string]string{"lib/modules/6.1.1/modules.dep": ""})}}
	if !r.unbooted("6.1.0") || r.unbooted("6.1.1") {
		t.Error("an upgraded kernel is not seen")
	}
}

// A clock is synchronised if its error is known. chronyd without rtcsync leaves the flag set.
func TestSynced(t *testing.T) {
	if !synced(&unix.Timex{Maxerror: 15_999_999, Status: unix.STA_UNSYNC}) {
		t.Error("chronyd without rtcsync: not synchronised")
	}
	if synced(&unix.Timex{Maxerror: 16_000_000, Status: unix.STA_UNSYNC}) {
		t.Error("a clock that nothing sets: synchronised")
	}
}

// This machine is read without an error, whatever it is.
func TestThisMachine(t *testing.T) {
	f := Read(Options{Sysctls: []string{"net.ipv4.ip_forward"}, Window: time.Millisecond, Unit: "svcproxy.service"})
	if f.Release == "" || len(f.Links) == 0 {
		t.Errorf("%+v", f)
	}
	if uid, known := UserOf(os.Getpid()); !known || uid != os.Geteuid() {
		t.Errorf("this process's user: %d %v", uid, known)
	}
}

// A module that is not loaded is lacking if there is no file of it, or something keeps it from being loaded.
func TestLacks(t *testing.T) {
	m := Modules{Loaded: map[string]bool{"a": true, "b": true}, Files: map[string]bool{"c": true, "d": true}, Known: true,
		Barred: map[string]string{"b": "x.conf", "d": "the boot parameter module_blacklist"}}
	for name, want := range map[string]bool{"a": false, "b": false, "c": false, "d": true, "e": true} {
		if m.Lacks(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
	if m.Known = false; m.Lacks("e") {
		t.Error("e is lacking although no files are known")
	}
}
