package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// kernelOf is a table as the contract wants it. Sets have the capacity that they were created with.
type kernelOf struct {
	*Table
	capacity map[string]uint32
}

func (k kernelOf) Read(context.Context) (o kernel.Observed, err error) {
	if o.Sets, o.Entries, err = k.ReadSets(); err == nil {
		o.Chains, err = k.ReadChains()
	}
	o.Sets = slices.Clone(o.Sets)
	for i := range o.Sets {
		o.Sets[i].MaxElem = k.capacity[o.Sets[i].Name]
	}
	o.Names, o.Fresh = k.names, true
	return o, err
}

func (k kernelOf) Verify(_ context.Context, known *kernel.Observed, shard plan.Shard) (bool, error) {
	chains, err := k.ReadChains()
	if err != nil || !slices.Equal(chains, known.Chains) {
		return false, err
	}
	return k.VerifySets(&known.State, shard.HasEntries)
}

func (k kernelOf) Apply(_ context.Context, p kernel.Plan) error {
	for _, o := range p.Ops {
		if s, ok := o.Object.(kernel.Set); ok && k.capacity[s.Name] == 0 {
			k.capacity[s.Name] = s.MaxElem
		}
	}
	return plan.Carry(p, k.names, func(a, b kernel.Kind) bool { return true }, k.Table.Apply)
}

// TestContract runs the scenarios of what nftables has. Sets have no capacity there; and a chain that cannot be removed
// is not emptied: TestRefusal.
func TestContract(t *testing.T) {
	kerneltest.Contract(t, kernel.DefaultNames, func(t testing.TB) kerneltest.Kernel {
		return kernelOf{open(t, kernel.DefaultNames), map[string]uint32{}}
	}, "addresses", "announcements", "chains", "forwarding", "limits", "marks", "reals", "resize", "routes",
		"sync-daemons", "thresholds", "timeouts-default", "timeouts", "virtuals")
}

// TestAnyState: any state is written and read back, whatever was there.
func TestAnyState(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	rapid.Check(t, func(r *rapid.T) {
		services, node, c := modetest.DrawTable(r), modetest.DrawNode(r), modetest.DrawConfig(r)
		c.Names, c.Native = kernel.DefaultNames, true
		layout := rapid.SampledFrom(slices.Sorted(maps.Keys(layouts))).Draw(r, "layout")
		apply(t, table, tablesOf(layouts[layout](frontend.List(services, node, c.Frontends), c)))
	})
}

const wide = `create KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net family inet maxelem 4294967295
create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.96.0.1,tcp:80,10.0.0.0/8
add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.96.0.1,tcp:80,192.0.2.7
add KUBE-NODE-PORT-TCP 30080
#: iptables
*filter
:KUBE-SOURCE-RANGES-FIREWALL - [0:0]
-A KUBE-SOURCE-RANGES-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN
-A KUBE-SOURCE-RANGES-FIREWALL -m comment --comment "a drop" -j DROP
-A INPUT -j KUBE-SOURCE-RANGES-FIREWALL
COMMIT
`

// TestTampers: what another program changes is seen and repaired.
func TestTampers(t *testing.T) {
	for _, change := range []string{
		"flush ruleset",
		"delete table ip svcproxy",
		"add rule ip svcproxy filter-INPUT accept",
		"insert rule ip svcproxy filter-KUBE-SOURCE-RANGES-FIREWALL index 0 drop",
		"add rule ip svcproxy filter-INPUT jump filter-KUBE-SOURCE-RANGES-FIREWALL",
		"flush chain ip svcproxy filter-INPUT",
		"replace rule ip svcproxy filter-KUBE-SOURCE-RANGES-FIREWALL handle HANDLE accept",
		"delete rule ip svcproxy filter-KUBE-SOURCE-RANGES-FIREWALL handle HANDLE",
		`replace rule ip svcproxy filter-KUBE-SOURCE-RANGES-FIREWALL handle HANDLE drop comment "a drop"`,
		"delete element ip svcproxy KUBE-SLOTS { 10.96.0.1 . tcp . 80 . 0:1 }",
		"add element ip svcproxy KUBE-SLOTS { 10.96.0.1 . tcp . 80 . 0:2 : 10.2.0.3 . 1 }",
		"add element ip svcproxy KUBE-SLOTS { 10.96.0.1 . tcp . 80 . 1:1 : 10.2.0.3 . 1 }",
		"add element ip svcproxy KUBE-FRONTENDS { 10.96.0.1 . tcp . 81 : 1:1 }",
		"delete element ip svcproxy KUBE-CLASSES { " + classText(classOf("KUBE-LB-2")) + " }",
		"delete element ip svcproxy KUBE-CLASSES { " + classText(classOf("KUBE-LB-2")) + " }; " +
			"add element ip svcproxy KUBE-CLASSES { " + classText(classOf("KUBE-LB-2")) + " : accept }",
		"delete element ip svcproxy KUBE-CLASSES { " + classText(classOf("KUBE-LB-2")) + " }; " +
			"add element ip svcproxy KUBE-CLASSES { " + classText(classOf("KUBE-LB-2")) + " : jump nat-KUBE-LB-2 }",
		"flush map ip svcproxy KUBE-CLASSES",
		"add element ip svcproxy KUBE-NODE-PORT-TCP { 1 }",
		"add element ip svcproxy KUBE-LOAD-BALANCER-SOURCE-CIDR { 10.96.0.1 . tcp . 81 . 10.0.0.1-10.0.0.6 }",
		"add element ip svcproxy KUBE-LOAD-BALANCER-SOURCE-CIDR { 10.96.0.1-10.96.0.2 . tcp . 81 . 10.0.0.1 }",
		"flush set ip svcproxy KUBE-NODE-PORT-TCP",
		"delete set ip svcproxy KUBE-NODE-PORT-TCP",
		"delete set ip svcproxy KUBE-NODE-PORT-TCP; add set ip svcproxy KUBE-NODE-PORT-TCP { type inet_service; flags interval; }",
		"delete set ip svcproxy KUBE-NODE-PORT-TCP; add set ip svcproxy KUBE-NODE-PORT-TCP { type ipv4_addr; }",
		"add chain ip svcproxy filter-INPUT { policy drop; }",
		"delete chain ip svcproxy filter-INPUT; add chain ip svcproxy filter-INPUT { type filter hook input priority 5; }; " +
			"add rule ip svcproxy filter-INPUT jump filter-KUBE-SOURCE-RANGES-FIREWALL",
		"add chain ip svcproxy filter-KUBE-FORWARD",
		"add table ip svcproxy { flags dormant; }",
		"add table ip svcproxy { flags dormant; }; flush chain ip svcproxy filter-INPUT; delete chain ip svcproxy filter-INPUT",
	} {
		t.Run(change, func(t *testing.T) {
			table := open(t, kernel.DefaultNames)
			s := parsed(t, mapState+wide)
			apply(t, table, s)
			list := kerneltest.Run(t, "nft", "-a", "list", "chain", "ip", "svcproxy", "filter-KUBE-SOURCE-RANGES-FIREWALL")
			_, handle, _ := strings.Cut(list, "# handle ")
			_, handle, _ = strings.Cut(handle, "# handle ")
			handle, _, _ = strings.Cut(handle, "\n")
			kerneltest.Run(t, "nft", strings.ReplaceAll(change, "HANDLE", handle))
			if len(ops(t, table, s)) == 0 {
				t.Fatalf("not noticed:\n%s", kerneltest.Run(t, "nft", "list", "ruleset"))
			}
			apply(t, table, s)
		})
	}
}

// TestLyingRule: a rule with the words of another one is no rule of ours.
func TestLyingRule(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	s := parsed(t, wide)
	apply(t, table, s)
	own, _ := userdata("-j DROP", "")
	r, _ := compile(table.names, kernel.IPv4, "filter", "-j ACCEPT")
	b := new(nl.Batch)
	limit(b, unix.NFNL_MSG_BATCH_BEGIN)
	putRule(b, "svcproxy", kernel.Chain{Family: kernel.IPv4, Table: "filter", Name: "INPUT"}, r.exprs, own)
	limit(b, unix.NFNL_MSG_BATCH_END)
	if err := table.conn.Commit(b, nil); err != nil {
		t.Fatal(err)
	}
	chains, err := table.ReadChains()
	if err != nil || !strings.Contains(chains[1].Rules+chains[0].Rules, unread) {
		t.Errorf("%v, %v", chains, err)
	}
}

// TestForeignObjects: what is not ours in our table stays, and with it the table.
func TestForeignObjects(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	s := parsed(t, mapState+wide)
	apply(t, table, s)
	kerneltest.Run(t, "nft", "add chain ip svcproxy other { type filter hook input priority 7; }; add set ip svcproxy more { type mark; }")
	if all := ops(t, table, s); len(all) > 0 {
		t.Errorf("planned %v", all)
	}
	for how, remove := range map[string]func() error{
		"planned": func() error { apply(t, table, kernel.State{}); return nil },
		"Remove":  func() error { return table.Remove(kernel.IPv4) },
	} {
		apply(t, table, s)
		if err := remove(); err != nil {
			t.Error(err)
		}
		list := kerneltest.Run(t, "nft", "list", "ruleset")
		if !strings.Contains(list, "chain other") || !strings.Contains(list, "set more") || strings.Contains(list, "KUBE") {
			t.Errorf("%s, left:\n%s", how, list)
		}
		if there, err := table.Families(); there != nil || err != nil {
			t.Errorf("%s: there %v, %v", how, there, err)
		}
	}
}

// spoiler makes the kernel refuse one message of the next transaction.
type spoiler struct {
	nl.Transport
	at    *int // message to spoil, counted from 1; 0 for none
	count *int // messages of the last transaction
}

func (s spoiler) Send(p []byte) error {
	const longEnough = 3
	var starts []int
	for at := 0; at < len(p); at += int(binary.NativeEndian.Uint32(p[at:])+3) &^ 3 {
		starts = append(starts, at)
	}
	if len(starts) >= longEnough {
		*s.count = len(starts)
		if *s.at > 0 {
			p = slices.Clone(p)
			p[starts[*s.at]+4] = 0xff // no message type of nf_tables
		}
	}
	return s.Transport.Send(p)
}

// TestRefusal: whichever message of a transaction the kernel refuses, the tables stay as they were, the op is named, and the others are
// said not to be done.
func TestRefusal(t *testing.T) {
	kerneltest.NewNamespace(t)
	at, count := 0, 0
	table, err := Open(&nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport {
		return spoiler{tr, &at, &count}
	}}, kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	first, second := parsed(t, mapState+wide), parsed(t, strings.NewReplacer("goto KUBE-LB-2", "goto KUBE-LB-T",
		".2:8080", ".3:8080", "10.0.0.0/8", "10.1.0.0/16", "-j DROP", "-j ACCEPT").Replace(mapState+wide+sixth()))
	for _, step := range [][2]kernel.State{{{}, first}, {first, second}, {second, {}}} {
		apply(t, table, step[0])
		all := ops(t, table, step[1])
		for at = 1; at == 1 || at < count-1; at++ {
			errs := table.transact(all)
			refused := 0
			for i, err := range errs {
				switch {
				case err == nil:
					t.Fatalf("message %d: %s is said to be done", at, all[i])
				case !errors.Is(err, kernel.ErrNotDone):
					refused++
				}
			}
			if refused == 0 {
				t.Fatalf("message %d: no op is named", at)
			}
			if got := observed(t, table).State; got.String() != step[0].String() {
				t.Fatalf("message %d: %s", at, got)
			}
		}
		at = 0
		apply(t, table, step[1])
	}
}

// TestRefusedElement: of many entries in one message the refused one is named. Removing what is not there is no error.
func TestRefusedElement(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	s := parsed(t, mapState+wide)
	apply(t, table, s)
	op := func(v kernel.Verb, member string) kernel.Op {
		e, err := kernel.ParseMember(member)
		if err != nil {
			t.Fatal(err)
		}
		e.Set = "KUBE-LOAD-BALANCER-SOURCE-CIDR"
		return kernel.Op{Verb: v, Object: e}
	}
	missing := op(kernel.Remove, "10.96.0.9,tcp:9,10.0.0.0/8")
	bad := op(kernel.Add, "10.96.0.1,tcp:80,10.1.0.0/16") // another one contains it
	all := []kernel.Op{op(kernel.Add, "10.96.0.2,tcp:80,10.0.0.0/8"), bad, op(kernel.Add, "10.96.0.2,tcp:82,10.0.0.0/8"), missing}
	errs := table.Apply(all)
	if len(errs) != 4 {
		t.Fatal(errs)
	}
	for i, err := range errs {
		if i < 3 && errors.Is(err, kernel.ErrNotDone) == (i == 1) {
			t.Errorf("op %d: %v", i, err)
		}
	}
	if text := fmt.Sprint(errs[0]); !strings.Contains(text, "10.1.0.0/16") {
		t.Error(text)
	}
	if got := observed(t, table).State; got.String() != s.String() {
		t.Error(got)
	}
	if errs := table.Apply([]kernel.Op{all[0], all[2], missing}); errs != nil {
		t.Error(errs)
	}
}

// TestOverlap: a prefix replaces one that contains it, and one that is in it.
func TestOverlap(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	for _, r := range []string{"10.0.0.0/8", "10.7.0.0/16", "10.0.0.0/8", "10.0.0.0/16"} {
		s := parsed(t, strings.ReplaceAll(wide, "10.0.0.0/8", r))
		have := observed(t, table)
		have.Native = true
		for i, err := range table.Apply(plan.Once(s, have).Ops) {
			if err != nil {
				t.Fatalf("%s, op %d: %v", r, i, err)
			}
		}
		apply(t, table, s)
	}
}

// TestTry: what the kernel takes, and what it does not, leaves no trace.
func TestTry(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	id, err := table.generation()
	if err != nil {
		t.Fatal(err)
	}
	s := parsed(t, mapState+sixth()+wide)
	if err := table.Try(s.Chains); err != nil {
		t.Error(err)
	}
	const none = "-j DNAT --map KUBE-SLOTS dst,dst --random 0"
	bad := []kernel.Chain{{Family: kernel.IPv4, Table: "nat", Name: "KUBE-LB-0", Rules: none}}
	var missing *kernel.MissingError
	if err := table.Try(bad); !errors.As(err, &missing) || !strings.Contains(err.Error(), none) {
		t.Errorf("one of no slots: %v", err)
	}
	if err := table.Try([]kernel.Chain{{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES", Rules: "-m recent -j DROP"}}); err == nil {
		t.Error("a match without a form in nftables was taken")
	}
	if after, err := table.generation(); after != id || err != nil {
		t.Errorf("the generation was %d and is %d, %v", id, after, err)
	}
}

// TestReadingIsKept: unless a rule changed, a second reading lists nothing, and entries are verified once.
func TestReadingIsKept(t *testing.T) {
	table := open(t, kernel.DefaultNames)
	s := parsed(t, mapState+wide)
	apply(t, table, s)
	all := func(string) bool { return true }
	queries := func(most uint64, f func()) {
		t.Helper()
		before := table.Stats().Queries
		if f(); table.Stats().Queries-before > most {
			t.Errorf("%d queries", table.Stats().Queries-before)
		}
	}
	verify := func(want bool) {
		t.Helper()
		if same, err := table.VerifySets(&s, all); same != want || err != nil {
			t.Errorf("the same: %v, %v", same, err)
		}
	}
	var first kernel.Observed
	queries(2, func() { first = observed(t, table) })
	queries(2, func() { verify(true) })
	kerneltest.Run(t, "nft", "add table ip other")
	heads := uint64(2 + 6)                                        // generation, tables of two families, sets, classes, chains, rules
	queries(heads+1+uint64(len(s.Sets)), func() { verify(true) }) // each set, and the generation
	queries(1, func() { verify(true) })
	queries(1, func() {
		if _, err := table.ReadChains(); err != nil {
			t.Error(err)
		}
	})
	if now := observed(t, table); now.Entries.Shares(first.Entries) || !now.Entries.Equal(first.Entries) {
		t.Error("not read again, or another reading")
	}
	for _, change := range []string{
		"add element ip svcproxy KUBE-NODE-PORT-TCP { 1 }",
		"delete element ip svcproxy KUBE-NODE-PORT-TCP { 1, 30080 }",
		"add element ip svcproxy KUBE-NODE-PORT-TCP { 30080 }; delete element ip svcproxy KUBE-SLOTS { 10.96.0.1 . tcp . 80 . 0:1 }",
		"add element ip svcproxy KUBE-SLOTS { 10.96.0.1 . tcp . 80 . 0:1 : 10.2.0.9 . 8080 }",
	} {
		kerneltest.Run(t, "nft", change)
		verify(false)
	}
	kerneltest.Run(t, "nft", "delete element ip svcproxy KUBE-SLOTS { 10.96.0.1 . tcp . 80 . 0:1 }; "+
		"add element ip svcproxy KUBE-SLOTS { 10.96.0.1 . tcp . 80 . 0:1 : 10.2.0.2 . 8080 }")
	verify(true)
}
