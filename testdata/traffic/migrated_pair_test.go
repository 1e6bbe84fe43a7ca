package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// ownConf is keepalived.conf of a node of a pair: PRIORITY and DIR are the node's. A program moves the VIPs if the first
// service has lost its quorum. The second has a sorry server, and the third neither. Keepalived 2.3.3 runs no program
// below a linked folder, as /bin is.
const ownConf = `
global_defs {
  script_user root
}
vrrp_track_file web {
  file DIR/quorum
  weight 1
  init_file 0
}
vrrp_instance vips {
  state BACKUP
  interface eth1
  virtual_router_id 51
  priority PRIORITY
  advert_int 1
  authentication {
    auth_type PASS
    auth_pass s3cret
  }
  virtual_ipaddress {
    10.20.0.253/24 dev eth1
    198.51.100.80/32 dev eth1
    198.51.100.81/32 dev eth1
    198.51.100.82/32 dev eth1
  }
  track_file {
    web
  }
}
virtual_server 198.51.100.80 7000 {
  delay_loop 1
  lb_algo rr
  lb_kind NAT
  protocol TCP
  quorum 2
  quorum_up "/usr/bin/sh -c 'echo 0 >DIR/quorum'"
  quorum_down "/usr/bin/sh -c 'echo -60 >DIR/quorum'"
  real_server 10.20.0.101 7000 {
    TCP_CHECK {
      connect_timeout 5
    }
  }
  real_server 10.20.0.102 7000 {
    TCP_CHECK {
      connect_timeout 5
    }
  }
}
virtual_server 198.51.100.81 7000 {
  delay_loop 1
  lb_algo rr
  lb_kind NAT
  protocol TCP
  sorry_server 10.20.0.104 7000
  real_server 10.20.0.103 7000 {
    TCP_CHECK {
      connect_timeout 5
    }
  }
}
virtual_server 198.51.100.82 7000 {
  delay_loop 1
  lb_algo rr
  lb_kind NAT
  protocol TCP
  real_server 10.20.0.104 7000 {
    TCP_CHECK {
      connect_timeout 5
    }
  }
}
`

// apology is a VIP with a sorry server, and plain one without.
var (
	apology = netip.MustParseAddrPort("198.51.100.81:7000")
	plain   = netip.MustParseAddrPort("198.51.100.82:7000")
)

// ownPair is a pair that keepalived makes alone, until it is migrated.
type ownPair struct {
	pair
	conf    []string // keepalived.conf of each node
	running []*keepalived
}

func newOwnPair(t *testing.T) *ownPair {
	t.Helper()
	kerneltest.Need(t, kerneltest.Tool("keepalived"))
	inGuest(t, "kills keepalived by its name")
	p := &ownPair{running: make([]*keepalived, 2)}
	p.Fabric, p.nodes = newNodes(t, 2, 4, "")
	must(t, p.Router.IP("route add 198.51.100.80/30 via "+gateway))
	for _, b := range p.Backends {
		must(t, b.IP("route replace default via "+gateway))
	}
	for i, n := range p.nodes {
		must(t, n.Serve("services = {}\n"))
		p.run(t, i, "sysctl -qw net.ipv4.ip_forward=1")
		p.conf = append(p.conf, filepath.Join(n.Dir, "keepalived.conf"))
		p.files = append(p.files, filepath.Join(n.Dir, "announced"))
		text := strings.NewReplacer("PRIORITY", fmt.Sprint(150-50*i), "DIR", n.Dir).Replace(ownConf)
		must(t, os.WriteFile(p.conf[i], []byte(text), 0o600))
		p.start(t, i)
	}
	return p
}

func (p *ownPair) run(t *testing.T, node int, command string) {
	t.Helper()
	if out, err := p.Nodes[node].Run("sh", "-ec", command); err != nil {
		t.Fatalf("node %d: %s: %v: %s", node+1, command, err, out)
	}
}

// start starts keepalived, with all parts that its configuration has. One that was killed is buried.
func (p *ownPair) start(t *testing.T, node int) {
	t.Helper()
	if k := p.running[node]; k != nil {
		k.stop()
	}
	k, file := &keepalived{}, p.conf[node]
	k.cmd = exec.Command("keepalived", keepalivedArgs(file)...)
	k.cmd.Stdout, k.cmd.Stderr = &k.log, &k.log
	must(t, p.Nodes[node].Start(k.cmd))
	p.running[node] = k
	t.Cleanup(func() {
		k.stop()
		if t.Failed() {
			t.Logf("keepalived on node %d:\n%s", node+1, k.log.String())
		}
	})
}

// unreachable has a node refuse its own connections to some servers, given by their numbers, so that their checks fail there
// alone. The connections of clients pass. back ends it.
func (p *ownPair) unreachable(t *testing.T, node int, servers ...int) (back func()) {
	t.Helper()
	rules := ""
	for _, s := range servers {
		rules += fmt.Sprintf("iptables -w -A OUTPUT -s 10.20.0.%d -d 10.20.0.%d -p tcp --dport 7000 -j REJECT --reject-with tcp-reset\n",
			node+1, 100+s)
	}
	p.run(t, node, rules)
	return func() { t.Helper(); p.run(t, node, strings.ReplaceAll(rules, " -A ", " -D ")) }
}

// answers waits until a server answers on a VIP.
func (p *ownPair) answers(t *testing.T, vip netip.AddrPort, server string) {
	t.Helper()
	if err := lab.Eventually(patience, func() error {
		a, err := p.Client.Ask("tcp", vip)
		if err == nil && a.Backend != server {
			err = fmt.Errorf("%s is answered by %s, want %s", vip, a.Backend, server)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// failsOver has all servers of one service after the other die on the master. The backup has the VIPs while the first lacks
// its quorum. For the others the VIPs stay, and the sorry server answers.
func (p *ownPair) failsOver(t *testing.T, when string) {
	t.Helper()
	t.Log(when)
	p.masterIs(t, 1)
	p.answers(t, apology, "pod3")
	back := p.unreachable(t, 0, 2) // one of two, of a quorum of two
	p.masterIs(t, 2)
	back()
	p.masterIs(t, 1)
	back = p.unreachable(t, 0, 1, 2)
	p.masterIs(t, 2)
	p.answers(t, apology, "pod3")
	back()
	p.masterIs(t, 1)

	mark := p.running[0].log.Len()
	back = p.unreachable(t, 0, 3, 4)
	p.answers(t, apology, "pod4")
	must(t, lab.Eventually(patience, func() error {
		if _, err := p.Client.Ask("tcp", plain); err == nil {
			return fmt.Errorf("%s is answered, and its only server is down", plain)
		}
		return nil
	}))
	p.masterIs(t, 1)
	back()
	p.answers(t, apology, "pod3")
	p.answers(t, plain, "pod4")
	if log := p.running[0].log.String()[mark:]; strings.Contains(log, "Entering") {
		t.Errorf("%s: the VIPs have moved for a service without a quorum of its own:\n%s", when, log)
	}
}

// migrate does the steps that import prints on a node, as they stand but for the names of files and what starts programs.
func (p *ownPair) migrate(t *testing.T, i int) {
	t.Helper()
	n := node{Proxy: p.nodes[i]}
	services := filepath.Join(n.Dir, "services.d", "imported.toml")
	steps := n.imports(t, "--write", services, p.conf[i]).Steps
	here := strings.NewReplacer("/etc/keepalived/keepalived.conf", p.conf[i], "/run/svcproxy/announced", p.files[i],
		"-x keepalived", "-x keepalived --ns $$ --nslist net")
	rest := filepath.Join(n.Dir, "services.d", "keepalived.conf")
	text, err := os.ReadFile(rest)
	must(t, err)
	must(t, os.WriteFile(rest, []byte(here.Replace(string(text))), 0o600))
	for _, step := range steps {
		t.Logf("node %d: %s", i+1, step)
		if strings.HasPrefix(step, "svcproxy check && systemctl start svcproxy") {
			if out, code, err := n.Command("check"); err != nil || code != 0 {
				t.Errorf("check: exit code %d, %v\n%s", code, err, out)
			}
			must(t, n.Start())
			_, err := n.Wait(0, lab.Synced)
			must(t, err)
			continue
		}
		p.run(t, i, "systemctl() { :; }; "+here.Replace(step))
		if strings.Contains(step, "systemctl restart keepalived") {
			p.start(t, i)
		}
	}
}

// TestMigratedPair: a pair that keepalived makes alone, with a configuration of its own, fails over after both nodes are
// migrated as it did before: for the service whose quorum moved the VIPs, and for no other.
func TestMigratedPair(t *testing.T) {
	p := newOwnPair(t)
	p.failsOver(t, "keepalived alone")
	p.migrate(t, 1)
	p.masterIs(t, 1)
	p.running[1].stop()
	p.migrate(t, 0)
	p.masterIs(t, 1)
	p.start(t, 1)
	for _, i := range []int{0, 1} {
		must(t, lab.Eventually(patience, func() error {
			text, err := os.ReadFile(p.files[i])
			if err == nil && string(text) != "0\n" {
				err = fmt.Errorf("keepalived on node %d is told %q", i+1, text)
			}
			return err
		}))
	}
	p.failsOver(t, "migrated")
}
