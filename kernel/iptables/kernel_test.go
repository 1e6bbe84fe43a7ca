package iptables

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// backends are the suffixes of the tools of both back ends, which Debian installs side by side.
var backends = []string{"nft", "legacy"}

// eachBackend runs a test with each back end, each time in its own namespace.
func eachBackend(t *testing.T, test func(t *testing.T, b backend)) {
	for _, name := range backends {
		t.Run(name, func(t *testing.T) {
			kerneltest.Need(t, kerneltest.Tool("iptables-"+name))
			kerneltest.NewNamespace(t)
			tt, err := Open(t.Context(), Options{Find: func(tool string) (string, error) { return find(named(tool, name)) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tt.Close() })
			test(t, backend{tt, name})
		})
	}
}

// named returns ip6tables-nft-save for ip6tables-save and nft.
func named(tool, backend string) string {
	base, rest, found := strings.Cut(tool, "-")
	if !found {
		return base + "-" + backend
	}
	return base + "-" + backend + "-" + rest
}

type backend struct {
	*Tables
	name string
}

// save returns what iptables-save prints for a family, without comments. If the tables must be
// named, it names those that we write to.
func (b backend) save(t *testing.T, tool string) string {
	t.Helper()
	tool = named(tool+"-save", b.name)
	text := ""
	if b.name == "legacy" && os.Geteuid() != 0 {
		for _, table := range tables {
			text += kerneltest.Run(t, tool, "-t", table)
		}
	} else {
		text = kerneltest.Run(t, tool)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// restore feeds text to iptables-restore, as another program would.
func (b backend) restore(t *testing.T, tool, text string) {
	t.Helper()
	if _, err := run(t.Context(), text, named(tool+"-restore", b.name), "--noflush"); err != nil {
		t.Fatal(err)
	}
}

// sync changes the kernel to want and checks it with a fresh reading.
func (b backend) sync(t *testing.T, want kernel.State) {
	t.Helper()
	have := b.read(t)
	plan := plan.Once(want, kernel.Observed{State: kernel.State{Chains: have}})
	before := b.Stats().Writers
	for i, err := range b.Apply(t.Context(), plan.Ops) {
		if err != nil {
			t.Fatalf("%s: %v", plan.Ops[i], err)
		}
	}
	if n := b.Stats().Writers - before; n > 2 {
		t.Errorf("%d iptables-restore for %d ops, want one a family", n, len(plan.Ops))
	}
	if got := b.read(t); !slices.Equal(got, want.Chains) {
		t.Fatalf("read\n%swant\n%s", kernel.State{Chains: got}, kernel.State{Chains: want.Chains})
	}
}

func (b backend) read(t *testing.T) []kernel.Chain {
	t.Helper()
	chains, err := b.Read(t.Context(), kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	return chains
}

func wanted(t *testing.T, text string) kernel.State { return state(t, text).State }

const foreign = `*nat
:DOCKER - [0:0]
:KUBE-SVC-XYZ - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A PREROUTING -s 192.0.2.1/32 -m comment --comment "jump to KUBE-SERVICES -j KUBE-SERVICES" -j ACCEPT
-A DOCKER -i docker0 -j RETURN
COMMIT
*filter
:FOREIGN - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -j FOREIGN
-A FORWARD -j FOREIGN
COMMIT
`

const small = `#: iptables
*filter
:KUBE-FORWARD - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-A FORWARD -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-MARK-MASQ
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
#: ip6tables
*nat
:KUBE-SERVICES - [0:0]
-A KUBE-SERVICES -s ::1/128 -j RETURN
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
`

// Our rules are added, changed and removed. Foreign ones stay byte for byte, and idle readings run
// no tool.
func TestKernel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		b.restore(t, "iptables", foreign)
		b.restore(t, "ip6tables", "*nat\n:OTHER - [0:0]\n-A OUTPUT -j OTHER\nCOMMIT\n*filter\nCOMMIT\n")
		before := b.save(t, "iptables") + b.save(t, "ip6tables")

		b.sync(t, wanted(t, small))
		text := b.save(t, "iptables")
		wantInOrder(t, text, "-j KUBE-PROXY-FIREWALL", "-j KUBE-FORWARD", "-A FORWARD -j FOREIGN")
		if got := foreignPart(text) + foreignPart(b.save(t, "ip6tables")); got != before {
			t.Errorf("foreign rules are\n%swere\n%s", got, before)
		}

		execs := b.Stats()
		for range 3 {
			b.read(t)
		}
		if b.Stats() != execs {
			t.Errorf("idle readings ran tools: %+v, before %+v", b.Stats(), execs)
		}

		changed := strings.ReplaceAll(small, "-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN\n", "")
		changed = strings.ReplaceAll(changed, "-A FORWARD -m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL\n", "")
		b.sync(t, wanted(t, changed))
		b.sync(t, wanted(t, small))
		b.sync(t, kernel.State{})
		if after := b.save(t, "iptables") + b.save(t, "ip6tables"); after != before {
			t.Errorf("afterwards\n%sbefore\n%s", after, before)
		}
	})
}

// The tool that was not probed, because it is the same program, would have answered the same.
func TestOneProgramIsAskedOnce(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	kerneltest.NewNamespace(t)
	first, err := find("iptables")
	second, err2 := find("ip6tables")
	if err != nil || err2 != nil || !sameFile(first, second) {
		t.Skip("iptables and ip6tables are two programs here")
	}
	tt, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tt.Close()
	if n := tt.Stats().Readers; n != 1 {
		t.Errorf("%d tools ran, want 1", n)
	}
	for i, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		want, err := probe(t.Context(), find, f)
		if got := tt.Tools()[i]; err != nil || got != want {
			t.Errorf("found %v, which says it is %v, %v", got, want, err)
		}
	}
}

// Reading does not change an empty namespace.
func TestReadLeavesNoTrace(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		if b.name == "legacy" && os.Geteuid() != 0 {
			t.Skip("only root may read which tables there are, and asking for one makes it")
		}
		if chains := b.read(t); len(chains) != 0 {
			t.Errorf("read %v", chains)
		}
		b.read(t)
		if n := b.Stats().Readers; n != 1 { // --version: there is no table to save
			t.Errorf("%d readers ran, want 1", n)
		}
		list, err := os.ReadFile("/proc/thread-self/net/ip_tables_names")
		if err == nil && len(list) > 0 {
			t.Errorf("legacy tables came to be: %q", list)
		}
	})
}

// Changes of rules change the stamp; packets and sets do not.
func TestStamp(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		b.restore(t, "iptables", "*filter\n-A INPUT -p udp\nCOMMIT\n")
		b.restore(t, "ip6tables", "*filter\n-A INPUT -p udp\nCOMMIT\n")
		b.sync(t, wanted(t, small))
		runs := func(what string, want bool, do func()) {
			t.Helper()
			before := b.Stats().Readers
			do()
			b.read(t)
			if ran := b.Stats().Readers != before; ran != want {
				t.Errorf("%s: read again: %v, want %v", what, ran, want)
			}
		}
		runs("packets", false, func() { b.count(t) })
		runs("a set", false, func() {
			kerneltest.Run(t, "ipset", "create", "test", "hash:ip")
			kerneltest.Run(t, "ipset", "add", "test", "192.0.2.1")
		})
		runs("a list", false, func() { b.save(t, "iptables") })
		runs("a rule of ours flushed", true, func() { b.restore(t, "iptables", "*nat\n-F KUBE-SERVICES\nCOMMIT\n") })
		runs("a foreign rule", true, func() { b.restore(t, "ip6tables", "*filter\n-A INPUT -s 2001:db8::1 -j DROP\nCOMMIT\n") })
		b.sync(t, wanted(t, small)) // heals
	})
}

// count sends packets that the built-in chains count.
func (b backend) count(t *testing.T) {
	t.Helper()
	counters := func() string { return kerneltest.Run(t, named("iptables-save", b.name), "-c", "-t", "filter") }
	before := counters()
	for _, to := range []string{"127.0.0.1:9", "[::1]:9"} {
		c, err := net.Dial("udp", to)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "x")
		c.Close()
	}
	if counters() == before {
		t.Error("no packet was counted: the test shows nothing")
	}
}

// A table is changed as a whole or not at all, and the error names the faulty op.
func TestAtomic(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		b.sync(t, wanted(t, small))
		before := b.save(t, "iptables")
		ops := []kernel.Op{
			chain("filter", "KUBE-NODE-PORT"),
			{Verb: kernel.Change, Object: kernel.Chain{Family: kernel.IPv4, Table: "filter", Name: "KUBE-FORWARD", Rules: "-m set --match-set NO-SUCH dst -j ACCEPT"}},
			chain("nat", "KUBE-LOAD-BALANCER"),
			{Object: kernel.Chain{Family: kernel.IPv6, Table: "nat", Name: "KUBE-MARK-MASQ", Rules: "-j RETURN"}},
		}
		errs := b.Apply(t.Context(), ops)
		if errs[0] == nil || !strings.Contains(errs[0].Error(), "not carried out") {
			t.Errorf("the op beside it: %v", errs[0])
		}
		if errs[1] == nil || !strings.Contains(errs[1].Error(), "NO-SUCH") || strings.Contains(errs[1].Error(), "not carried out") {
			t.Errorf("the op at fault: %v", errs[1])
		}
		if errs[2] != nil || errs[3] != nil {
			t.Errorf("the table before it: %v; the other family: %v", errs[2], errs[3])
		}
		after := b.save(t, "iptables")
		if got := regexp.MustCompile(`.*KUBE-LOAD-BALANCER .*\n`).ReplaceAllString(after, ""); got != before {
			t.Errorf("the filter table changed:\n%sbefore\n%s", got, before)
		}
		if !strings.Contains(after, ":KUBE-LOAD-BALANCER ") || !strings.Contains(b.save(t, "ip6tables"), ":KUBE-MARK-MASQ ") {
			t.Errorf("what was reported as done is not")
		}
	})
}

// A jump that another process deleted makes the table fail, and the next sync succeeds.
func TestStaleJump(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		b.sync(t, wanted(t, small))
		plan := plan.Once(kernel.State{}, kernel.Observed{State: kernel.State{Chains: b.read(t)}})
		b.restore(t, "iptables", "*filter\n-D FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\nCOMMIT\n")
		if kernel.Failures(plan.Ops, b.Apply(t.Context(), plan.Ops)) == nil {
			t.Error("a stale plan was carried out without an error")
		}
		b.sync(t, kernel.State{})
	})
}

// A duplicate jump is reduced to one, and then removed.
func TestDuplicateJumps(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		b.sync(t, wanted(t, small))
		b.restore(t, "iptables", "*nat\n-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n")
		b.sync(t, wanted(t, small))
		b.restore(t, "iptables", "*nat\n-A PREROUTING -j KUBE-SERVICES\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n")
		b.sync(t, kernel.State{})
	})
}

// A foreign rule that jumps to a chain of ours keeps that chain. The others are removed.
func TestForeignJump(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		b.sync(t, wanted(t, small))
		b.restore(t, "iptables", "*nat\n:MINE - [0:0]\n-A MINE -j KUBE-MARK-MASQ\nCOMMIT\n")
		plan := plan.Once(kernel.State{}, kernel.Observed{State: kernel.State{Chains: b.read(t)}})
		errs := b.Apply(t.Context(), plan.Ops)
		for i, op := range plan.Ops {
			if failed := errs[i] != nil; failed != (chainOf(op).Name == "KUBE-MARK-MASQ") {
				t.Errorf("%s: %v", op, errs[i])
			}
		}
		want := []kernel.Chain{{Family: kernel.IPv4, Table: "nat", Name: "KUBE-MARK-MASQ"}}
		if got := b.read(t); !slices.Equal(got, want) {
			t.Errorf("left: %q, want the empty KUBE-MARK-MASQ", got)
		}
		if !strings.Contains(b.save(t, "iptables"), "-A MINE -j KUBE-MARK-MASQ\n") {
			t.Error("the foreign rule is gone")
		}
	})
}

// ours matches the lines of iptables-save that come from small.
var ours = regexp.MustCompile(`(?m)^(:|-A )KUBE-(SERVICES|MARK-MASQ|FORWARD|PROXY-FIREWALL) .*\n|^.* -j KUBE-(SERVICES|FORWARD|PROXY-FIREWALL)\n`)

func foreignPart(save string) string { return ours.ReplaceAllString(save, "") }

func wantInOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		_, after, found := strings.Cut(rest, p)
		if !found {
			t.Fatalf("no %q in its place in\n%s", p, text)
		}
		rest = after
	}
}
