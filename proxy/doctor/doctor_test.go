package doctor

import (
	"encoding/json"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

var (
	now  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	web  = kernel.VirtualAt(netip.MustParseAddrPort("192.168.1.80:80"), kernel.TCP)
	real = netip.MustParseAddr("10.2.0.1")
)

// healthy returns the facts of a node on which all is well.
func healthy() *Facts {
	virtual := kernel.Virtual{Key: web, Scheduler: "wrr"}
	node := kernel.Node{
		Name: "node", Release: kernel.Release{Major: 6, Minor: 1},
		Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.168.1.2/24"), Link: "eth0"}},
	}
	want := kernel.State{
		Virtuals: []kernel.Virtual{virtual},
		Sysctls:  []kernel.Sysctl{{Name: "net.ipv4.vs.conntrack", Value: "1"}},
		Policy:   kernel.Policy{Claims: []kernel.Claim{{Addr: web.Addr, Link: "eth0"}}},
	}
	have := kernel.Observed{State: kernel.State{
		Virtuals: []kernel.Virtual{virtual}, Sysctls: want.Sysctls, Routes: []kernel.Route{{Addr: web.Addr}},
	}, Node: node}
	table := sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: "default", Name: "web", Type: sources.LoadBalancer, LoadBalancerIPs: []sources.VIP{{Addr: web.Addr}},
		Ports:     []sources.Port{{Port: 80, Protocol: sources.TCP}},
		Endpoints: []sources.Endpoint{{Addr: real, Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 80}}, Weight: 1, Ready: true, Serving: true}},
	})}
	return &Facts{
		Machine: machine.Facts{
			Now: now, Release: "6.1.0-18-amd64", Window: time.Second, ConnTabBits: 12, Clock: machine.Clock{Synced: true, Daemon: "chronyd"},
			Modules: machine.Modules{Loaded: map[string]bool{"ip_vs_wrr": true}, Files: map[string]bool{"ip_vs_wrr": true}, Known: true},
			Sysctls: map[string]string{
				"net.ipv4.ip_forward": "1", "net.ipv4.conf.eth0.forwarding": "1", "net.ipv4.conf.all.rp_filter": "1",
				"net.ipv4.vs.conn_reuse_mode": "1", "net.ipv4.vs.pmtu_disc": "1",
			},
			Links:   []machine.Link{{Name: "lo", MTU: 65536, Up: true, Loopback: true}, {Name: "eth0", MTU: 1500, Up: true}, {Name: "eth1", MTU: 1400, Up: true}},
			Folders: []machine.Folder{{Path: "/var/lib/svcproxy", Exists: true, Mode: 0o755, UID: 999, Bytes: 1 << 30, BytesFree: 1 << 29, Inodes: 1e6, NodeFree: 1e5, Newest: now}},
			Unit:    machine.Unit{Systemd: true, Installed: true, Enabled: true},
		},
		Mode: "ipvs", Configured: true, UserID: 999, Status: &status.Status{Daemon: status.Daemon{Version: "0.1.0", Started: now.Add(-24 * time.Hour)}},
		Kernel: &have, Want: &want, Fronts: frontend.List(table, node, frontend.Config{}),
		Backends: []Backend{{Addr: real, Forward: sources.Masquerade, Hop: kernel.Hop{Kind: kernel.Unicast, Link: "eth0", Neighbor: "reachable"}, Service: "default/web"}},
	}
}

func TestHealthyNode(t *testing.T) {
	a := Examine(healthy())
	if len(a.Findings) > 0 || len(a.Unchecked) > 0 || len(a.Notes) > 0 {
		t.Errorf("a healthy node:\n%s", a)
	}
	if text := a.String(); text != "  versions: svcproxy 0.1.0, Linux 6.1.0-18-amd64\nnothing is wrong: 26 checks\n" {
		t.Errorf("text: %q", text)
	}
	out, err := json.Marshal(a)
	if err != nil || strings.Contains(string(out), "null") {
		t.Errorf("JSON: %s, %v", out, err)
	}
}

// Each fault is named by its check first, and by no other.
func TestFaults(t *testing.T) {
	days, three := -1, 3
	for name, c := range map[string]struct {
		check, text string
		fault       func(*Facts)
	}{
		"file": {"configuration", "services.toml:3: no port", func(f *Facts) { f.Refused = []string{"services.toml:3: no port"} }},
		"masked": {"unit", "masked by /etc/systemd/system/svcproxy.service", func(f *Facts) {
			f.Machine.Unit.Masked = "/etc/systemd/system/svcproxy.service"
		}},
		"not enabled": {"unit", "no boot starts its unit", func(f *Facts) { f.Machine.Unit.Enabled = false }},
		"stopped":     {"daemon", "does not run", func(f *Facts) { f.Status, f.NoAnswer = nil, "svcproxy does not run" }},
		"full":        {"disk", "is full", func(f *Facts) { f.Machine.Folders[0].BytesFree = 4096 }},
		"no inodes":   {"disk", "no room for files", func(f *Facts) { f.Machine.Folders[0].NodeFree = 0 }},
		"read-only":   {"disk", "read-only", func(f *Facts) { f.Machine.Folders[0].ReadOnly = true }},
		"open folder": {"folders", "every user may write", func(f *Facts) { f.Machine.Folders[0].Mode = 0o777 }},
		"root's":      {"folders", "runs as user 999 and may not write", func(f *Facts) { f.Machine.Folders[0].UID = 0 }},
		"gone":        {"folders", "is gone", func(f *Facts) { f.Machine.Folders[0].Exists = false }},
		"clock":       {"clock", "was set back", func(f *Facts) { f.Machine.Folders[0].Newest = now.Add(time.Hour) }},
		"unsynced":    {"clock", "not synchronised", func(f *Facts) { f.Machine.Clock.Synced = false }},
		"no module": {"modules", "the kernel has no IPVS", func(f *Facts) {
			f.Missing = []*kernel.MissingError{{What: "the kernel has no IPVS", Hint: "modprobe ip_vs"}}
		}},
		"RHEL 10": {"modules", "this kernel has no ipset", func(f *Facts) {
			f.Machine.Release = "6.12.0-211.34.1.el10_2.x86_64"
			f.Missing = []*kernel.MissingError{{What: "this kernel has no ipset", Hint: "modprobe ip_set"}}
		}},
		"no scheduler": {"modules", "has no scheduler twos", func(f *Facts) { f.Want.Virtuals[0].Scheduler = "twos" }},
		"lblc": {"modules", "lblc is not loaded", func(f *Facts) {
			f.Want.Virtuals[0].Scheduler, f.Machine.Modules.Files["ip_vs_lblc"] = "lblc", true
		}},
		"upgraded": {"modules", "an upgrade removed its modules", func(f *Facts) { f.Machine.Unbooted, f.Machine.Modules.Loaded = true, nil }},
		"barred":   {"modules", "keeps module ip_vs", func(f *Facts) { f.Machine.Modules.Barred = map[string]string{"ip_vs": "/etc/modprobe.d/no.conf"} }},
		"4.19":     {"kernel", "conn_reuse_mode", func(f *Facts) { f.Kernel.Node.Release = kernel.Release{Major: 4, Minor: 19} }},
		"no forwarding": {"forwarding", "net.ipv4.ip_forward is 0", func(f *Facts) {
			f.Machine.Sysctls["net.ipv4.ip_forward"] = "0"
		}},
		"a link": {"forwarding", "net.ipv4.conf.eth0.forwarding is 0", func(f *Facts) { f.Machine.Sysctls["net.ipv4.conf.eth0.forwarding"] = "0" }},
		"no forwarding of IPv6": {"forwarding", "net.ipv6.conf.all.forwarding is 0", func(f *Facts) {
			f.Backends[0].Addr, f.Machine.Sysctls["net.ipv6.conf.all.forwarding"] = netip.MustParseAddr("fd00:2::10"), "0"
		}},
		"no kernel module in time": {"modules", "the kernel has no IPVS", func(f *Facts) {
			f.Missing, f.Machine.Unbooted = []*kernel.MissingError{{What: "the kernel has no IPVS", Hint: "modprobe ip_vs"}}, true
		}},
		"rp_filter": {"rp_filter", "rp_filter dropped 10 packets in 1s (strict on eth0, eth1)", func(f *Facts) {
			f.Machine.After.RPFilter = 10
		}},
		"arp_ignore": {"arp", "answering ARP for 192.168.1.80 on eth0", func(f *Facts) { f.Machine.Sysctls["net.ipv4.conf.all.arp_ignore"] = "1" }},
		"conntrack": {"conntrack", "nearly full: 250000 of 262144", func(f *Facts) {
			f.Machine.After.Conntrack = machine.Conntrack{Entries: 250000, Max: 262144}
		}},
		"conntrack earlier": {"conntrack", "dropped packets 98 times in 5s", func(f *Facts) {
			f.Status.Conditions = []condition.Condition{{Kind: condition.ConntrackFull, Text: "dropped packets 98 times in 5s", Hint: "conntrack -S"}}
		}},
		"many conditions": {"status", "; and 7 more (unkept)", func(f *Facts) {
			f.Status.Conditions = []condition.Condition{{Kind: condition.Unkept, Subject: "mode", Text: "the disk is full", Hint: "df", More: 7}}
		}},
		"conntrack drop": {"conntrack", "had no room 1 time in 1s (131072 of 262144 entries)", func(f *Facts) {
			f.Machine.After.Conntrack = machine.Conntrack{Entries: 131072, Max: 262144, NoRoom: 1}
		}},
		"small table": {"ipvs-table", "100000 connections are in an IPVS table of 4096", func(f *Facts) {
			f.Kernel.Conns = []kernel.Conns{{Active: 60000, Inactive: 40000}}
		}},
		"sysctl": {"sysctls", "net.ipv4.vs.conntrack is 0, and svcproxy wants 1", func(f *Facts) {
			f.Kernel.Sysctls = []kernel.Sysctl{{Name: "net.ipv4.vs.conntrack", Value: "0"}}
		}},
		"mtu": {"mtu", "eth1 (1400, of which a tunnel needs 20)", func(f *Facts) {
			f.Backends[0].Forward, f.Backends[0].Hop.Link = sources.IPIP, "eth1"
		}},
		"pmtu_disc": {"mtu", "pmtu_disc is 0", func(f *Facts) {
			f.Backends[0].Forward, f.Machine.Sysctls["net.ipv4.vs.pmtu_disc"] = sources.GUE, "0"
		}},
		"duplicate": {"duplicate", "02:00:00:00:00:01 on eth0, answers for the VIP 192.168.1.80", func(f *Facts) {
			f.Taken = []kernel.Taken{{Claim: f.Want.Policy.Claims[0], MAC: "02:00:00:00:00:01"}}
		}},
		"firewall": {"firewall", "iptables filter INPUT: no rule accepts -t 192.168.1.80:80", func(f *Facts) {
			f.Kernel.Firewall = []kernel.BaseChain{{Hook: "input", Policy: "drop", Name: "iptables filter INPUT"}}
		}},
		"firewall of mode iptables": {"firewall", "nftables inet fw gate: no rule accepts -t 192.168.1.80:80", func(f *Facts) {
			f.Mode, f.Want.Virtuals, f.Kernel.Virtuals = "iptables", nil, nil
			f.Kernel.Firewall = []kernel.BaseChain{{Hook: "input", Policy: "drop", Name: "iptables filter INPUT"}, {Hook: "forward", Policy: "drop", Name: "nftables inet fw gate"}}
		}},
		"kube-proxy": {"others", "kube-proxy runs on this node (process 7)", func(f *Facts) { f.Machine.Processes = []machine.Process{{PID: 7, Name: "kube-proxy"}} }},
		"keepalived": {"others", "keepalived (process 8) made virtual servers: -t 203.0.113.1:80", func(f *Facts) {
			f.Machine.Processes = []machine.Process{{PID: 8, Name: "keepalived"}}
			f.Foreign = []kernel.VirtualKey{kernel.VirtualAt(netip.MustParseAddrPort("203.0.113.1:80"), kernel.TCP)}
		}},
		"kube-router": {"others", "kube-router (process 9) made virtual servers: -t 203.0.113.1:80", func(f *Facts) {
			f.Machine.Processes = []machine.Process{{PID: 9, Name: "kube-router"}}
			f.Foreign = []kernel.VirtualKey{kernel.VirtualAt(netip.MustParseAddrPort("203.0.113.1:80"), kernel.TCP)}
		}},
		"no route":     {"routes", "10.2.0.1 of default/web (unreachable)", func(f *Facts) { f.Backends[0].Hop.Kind = kernel.Unreachable }},
		"no neighbour": {"routes", "10.2.0.1 of default/web on eth0", func(f *Facts) { f.Backends[0].Hop.Neighbor = "failed" }},
		"closed port":  {"routes", "takes no connection: 10.2.0.1:80 of default/web (refused)", func(f *Facts) { f.Closed = []string{"10.2.0.1:80 of default/web (refused)"} }},
		"no VIP":       {"vips", "lacks VIP 192.168.1.80", func(f *Facts) { f.Kernel.Routes = nil }},
		"no virtual":   {"vips", "lacks virtual server -t 192.168.1.80:80", func(f *Facts) { f.Kernel.Virtuals = nil }},
		"old content":  {"files", "differ from what is served: default/web", func(f *Facts) { f.Unserved = []string{"default/web"} }},
		"restart":      {"files", "need a restart: stateDir", func(f *Facts) { f.Status.Daemon.Config.Restart = []string{"stateDir"} }},
		"certificate": {"certificates", "expired: 10.2.0.1:443 of default/web (2026-02-28)", func(f *Facts) {
			f.Status.Services = []status.Service{{Name: "default/web", Endpoints: []status.Endpoint{{
				Address: netip.MustParseAddrPort("10.2.0.1:443"), Health: &status.EndpointHealth{Expires: now.Add(-36 * time.Hour), Days: &days},
			}}}}
		}},
		"certificate soon": {"certificates", "expires within 7 days: 10.2.0.1:443 of default/web (2026-03-04)", func(f *Facts) {
			f.Status.Services = []status.Service{{Name: "default/web", Endpoints: []status.Endpoint{{
				Address: netip.MustParseAddrPort("10.2.0.1:443"), Health: &status.EndpointHealth{Expires: now.Add(72 * time.Hour), Days: &three},
			}}}}
		}},
		"refused file": {"files", "/etc/svcproxy/services.toml is refused; its content of 2026-03-01T11:00:00Z is served", func(f *Facts) {
			f.Status.Sources = []status.Source{{Stale: []status.Stale{{File: "/etc/svcproxy/services.toml", Good: now.Add(-time.Hour)}}}}
		}},
		"strictARP": {"sysctls", "net.ipv4.conf.all.arp_announce is 0, and svcproxy wants 2", func(f *Facts) {
			f.Want.Sysctls = []kernel.Sysctl{{Name: "net.ipv4.conf.all.arp_announce", Value: "2"}}
			f.Kernel.Sysctls = []kernel.Sysctl{{Name: "net.ipv4.conf.all.arp_announce", Value: "0"}}
		}},
		"ldirectord": {"others", "ldirectord runs on this node (process 7)", func(f *Facts) { f.Machine.Processes = []machine.Process{{PID: 7, Name: "ldirectord"}} }},
		"backlog":    {"drops", "dropped 200 packets", func(f *Facts) { f.Machine.After.Backlog = 200 }},
		"refusals": {"drops", "1 service without backends, and packets are refused: 5", func(f *Facts) {
			f.Machine.After.Refused, f.Status.Totals.Empty = 5, 1
		}},
		"problem": {"status", "the last sync failed", func(f *Facts) { f.Status.Problems = []string{"the last sync failed: no"} }},
		"lost": {"packets", "tcp 192.168.1.80:80: refused because weights are 0", func(f *Facts) {
			f.Lost = []Lost{{Target: "tcp 192.168.1.80:80", Why: "refused because weights are 0"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			c.fault(f)
			a := Examine(f)
			if len(a.Findings) != 1 || a.Findings[0].Check != c.check || !strings.Contains(a.Findings[0].Text, c.text) {
				t.Fatalf("want one finding of %s with %q:\n%s", c.check, c.text, a)
			}
			if got := a.Findings[0]; got.Why == "" || got.Mend == "" {
				t.Errorf("without a reason or a remedy: %+v", got)
			}
			if shows := regexp.MustCompile(`^svcproxy (status|doctor|explain|events|health|check)\b`); shows.MatchString(a.Findings[0].Mend) {
				t.Errorf("the remedy only looks: %q", a.Findings[0].Mend)
			}
			first, _, _ := strings.Cut(a.String(), "\n")
			if !strings.HasPrefix(first, "! "+c.check) || !strings.Contains(first, c.text) {
				t.Errorf("first line %q", first)
			}
		})
	}
}

// What mends a fault is a command that works.
func TestMend(t *testing.T) {
	for name, c := range map[string]struct {
		mend  string
		fault func(*Facts)
	}{
		"forwarding of a VLAN": {"sysctl -w net.ipv4.conf.eth0/100.forwarding=1", func(f *Facts) {
			f.Backends[0].Hop.Link, f.Machine.Sysctls["net.ipv4.conf.eth0/100.forwarding"] = "eth0.100", "0"
		}},
		"ARP of a VLAN": {"sysctl -w net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.eth0/100.arp_ignore=0", func(f *Facts) {
			f.Want.Policy.Claims[0].Link, f.Machine.Sysctls["net.ipv4.conf.eth0/100.arp_ignore"] = "eth0.100", "1"
		}},
		"svcproxy hangs": {"systemctl restart svcproxy", func(f *Facts) {
			f.Status, f.NoAnswer = nil, "svcproxy does not answer at /run/svcproxy/svcproxy.sock: i/o timeout"
		}},
		"rp_filter": {"add the route by which the source is reached, or sysctl -w net.ipv4.conf.all.rp_filter=2, which also lets forged sources in", func(f *Facts) {
			f.Machine.After.RPFilter = 10
		}},
		"a value of two numbers": {"sysctl -w 'net.ipv4.vs.sync_threshold=3 50'", func(f *Facts) {
			f.Want.Sysctls = []kernel.Sysctl{{Name: "net.ipv4.vs.sync_threshold", Value: "3 50"}}
			f.Kernel.Sysctls = []kernel.Sysctl{{Name: "net.ipv4.vs.sync_threshold", Value: "0 0"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			c.fault(f)
			if a := Examine(f); len(a.Findings) != 1 || a.Findings[0].Mend != c.mend {
				t.Errorf("want %q:\n%s", c.mend, a)
			}
		})
	}
}

// What happens on a healthy node is no finding.
func TestNoFault(t *testing.T) {
	for name, c := range map[string]func(*Facts){
		"two processors insert a connection": func(f *Facts) { f.Machine.After.Conntrack = machine.Conntrack{Entries: 100, Max: 262144, NoRoom: 5} },
		"a firewall that was mended since the last sync": func(f *Facts) {
			f.Status.Problems, f.Status.Warnings = []string{status.Barred}, []string{"iptables filter INPUT: no rule accepts"}
			f.Status.Totals.Barred = 1
		},
		"stray packets": func(f *Facts) { f.Machine.After.RPFilter = 9 },
		"keepalived for VRRP, kube-router for BGP": func(f *Facts) {
			f.Machine.Processes = []machine.Process{{PID: 8, Name: "keepalived"}, {PID: 9, Name: "kube-router"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			c(f)
			if a := Examine(f); len(a.Findings) > 0 {
				t.Errorf("%s", a)
			}
		})
	}
}

// What may be as it should is a note.
func TestNotes(t *testing.T) {
	for note, c := range map[string]func(*Facts){
		"kernel 6.12 was seen to panic": func(f *Facts) { f.Machine.Release = "6.12.48+deb13-amd64" },
		"which must have the VIPs itself: 10.2.0.1 of default/web behind 192.168.1.9": func(f *Facts) {
			f.Backends[0].Forward, f.Backends[0].Hop.Gateway = sources.Direct, netip.MustParseAddr("192.168.1.9")
		},
		"services.toml:3: doubtful": func(f *Facts) { f.Status.Warnings = []string{"services.toml:3: doubtful"} },
	} {
		t.Run(note, func(t *testing.T) {
			f := healthy()
			c(f)
			if a := Examine(f); len(a.Findings) > 0 || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], note) {
				t.Errorf("%s", a)
			}
		})
	}
}

// A node that is not configured has no finding, whatever else runs on it.
func TestNotConfigured(t *testing.T) {
	a := Examine(&Facts{Mode: "ipvs", NoAnswer: "svcproxy does not run", UserID: -1, Machine: machine.Facts{
		Processes: []machine.Process{{PID: 1, Name: "kube-proxy"}}, After: machine.Counters{RPFilter: 99},
		Modules: machine.Modules{Barred: map[string]string{"ip_vs": "/etc/modprobe.d/x.conf"}},
	}})
	if a.String() != "nothing is wrong; svcproxy has nothing to serve here\n" {
		t.Errorf("%s", a)
	}
}

// What cannot be checked is said, with the right that is missing, and is no finding.
func TestUnchecked(t *testing.T) {
	f := healthy()
	f.Kernel, f.Want, f.Fronts = nil, nil, nil
	f.Unchecked = []Unchecked{{"the kernel's virtual servers", "operation not permitted: run as root"}}
	f.Machine.Lacks = []machine.Lack{{What: "processes of other users", Why: "/proc hides them"}}
	want := `? not checked: the kernel's virtual servers: operation not permitted: run as root
? not checked: processes of other users: /proc hides them
  versions: svcproxy 0.1.0, Linux 6.1.0-18-amd64
nothing is wrong in what could be checked
`
	if got := Examine(f).String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// Facts that are not known provoke nothing.
func TestNothingKnown(t *testing.T) {
	for _, mode := range []string{"ipvs", "iptables", "userspace"} {
		if a := Examine(&Facts{Mode: mode, Configured: true}); len(a.Findings) > 0 {
			t.Errorf("%s:\n%s", mode, a)
		}
	}
}

// JSON.md has every check, in order. So has svcproxy-troubleshooting(7), with what to do.
func TestChecksAreWritten(t *testing.T) {
	text, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../packaging/docs/pages/svcproxy-troubleshooting.7.md")
	if err != nil {
		t.Fatal(err)
	}
	_, entries, _ := strings.Cut(string(page), "\n## What doctor finds\n")
	for _, n := range Names() {
		var found bool
		if _, entries, found = strings.Cut(entries, "\n| `"+n+"` | "); !found {
			t.Errorf("svcproxy-troubleshooting(7) has no entry for check %s, or not in this place", n)
		}
		entries = "\n" + entries
	}
	list := "`" + strings.Join(Names(), "`, `") + "`"
	if !strings.Contains(strings.ReplaceAll(string(text), "\n", " "), list) {
		t.Errorf("JSON.md lacks the checks: %s", list)
	}
}

// On RHEL 10 the modules of iptables and ipset are in a package of their own, and nftables needs none of them.
func TestExtraModules(t *testing.T) {
	f := healthy()
	f.Machine.Release = "6.12.0-211.34.1.el10_2.x86_64"
	f.Missing = []*kernel.MissingError{{What: "this kernel has no ipset", Hint: "modprobe ip_set"}}
	a := Examine(f).String()
	for _, want := range []string{"dnf install kernel-modules-extra-$(uname -r)", `rules.backend = "nftables"`} {
		if !strings.Contains(a, want) {
			t.Errorf("no %s in\n%s", want, a)
		}
	}
	f = healthy()
	f.Machine.Release, f.Native = "6.12.0-211.34.1.el10_2.x86_64", true
	answer := Examine(f)
	if len(answer.Findings) > 0 || !strings.Contains(answer.String(), "nftables, which serves, needs none") {
		t.Errorf("%s", answer)
	}
}
