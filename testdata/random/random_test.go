package random

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
	"github.com/svcproxy/svcproxy/sources"
)

// lifetime is the number of tables between two cleanups. checkEvery is the
// number of tables between two readings of the kernel, which take a third of a
// table's time. In between the last reading is advanced, as in the loop.
const (
	lifetime   = 10
	checkEvery = 5
)

// inMode says in which mode table i is served: one of five in mode iptables and one in
// mode userspace, each time at another place, so that checks and cleanups happen in all
// modes. The next table finds what the other mode left.
func inMode(i int) mode.Mode {
	switch (i + i/5) % 5 {
	case 1:
		return userspace.Mode{}
	case 3:
		return new(iptables.Mode)
	}
	return new(ipvs.Mode)
}

// sysctlNames are the kernel parameters of all modes.
var sysctlNames = slices.Compact(slices.Sorted(slices.Values(slices.Concat(
	new(ipvs.Mode).Sysctls(), new(iptables.Mode).Sysctls(), userspace.Mode{}.Sysctls()))))

// TestRandomTables goes from table to table on a node. SVCPROXY_RANDOM_TABLES
// says how many, a fifth of them with the legacy back end, SVCPROXY_RANDOM_SEED
// which.
func TestRandomTables(t *testing.T) {
	tables, seed := setting(t, "SVCPROXY_RANDOM_TABLES", 200), uint64(setting(t, "SVCPROXY_RANDOM_SEED", 1))
	legacy := (tables + 4) / 5
	packets := 0
	t.Run("nft", func(t *testing.T) { packets += run(t, "nft", tables-legacy, seed) })
	t.Run("legacy", func(t *testing.T) { packets += run(t, "legacy", legacy, seed+1) })
	t.Logf("%d packets went where the tracer says", packets)
	if least := leastPackets * tables; packets > 0 && tables >= 100 && packets < least {
		t.Errorf("only %d packets were compared, want %d", packets, least)
	}
}

// sendsPackets says for which tables packets are sent: all in mode iptables, and two of three
// in mode ipvs.
func sendsPackets(i int) bool { return inMode(i).Name() == "iptables" || i%3 != 0 }

// run returns the number of packets that it compared.
func run(t *testing.T, backend string, tables int, seed uint64) int {
	kerneltest.UseBackend(t, backend)
	n, d, packets := newNode(t), newDraw(seed), newDraw(seed)
	var table sources.Table
	config := d.config()
	for i := range tables {
		table = d.next(table)
		if d.chance(6) {
			config = d.config()
		}
		if d.chance(8) {
			n.toggle()
		}
		n.use(inMode(i))
		n.sync(table, config)
		switch {
		case n.mode.Name() == "userspace":
			n.ask(d, table, config)
		case sendsPackets(i):
			n.send(packets, table, config)
		}
		if i%checkEvery == checkEvery-1 {
			n.check(table, config)
		}
		if i%lifetime == lifetime-1 || i == tables-1 {
			n.cleanup()
		}
		if n.Failed() {
			t.Fatalf("at table %d of seed %d", i+1, seed)
		}
	}
	t.Logf("%d packets compared, of them %d with the real server that a hash scheduler chooses", n.compared, n.chosen)
	return n.compared
}

func setting(t *testing.T, name string, or int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("%s=%s: want a number above 0", name, text)
	}
	return n
}

// sync brings the kernel to a table and checks what its tools say.
func (n *node) sync(t sources.Table, c mode.Config) {
	n.Helper()
	want := n.mode.State(frontend.List(t, n.have.Node, c.Frontends), c)
	n.apply(want)
	n.compare(want)
	if p := plan.Once(want, n.have); !p.Empty() || len(p.Conflicts) > 0 {
		n.Errorf("the next sync is not idle:\n%s", p)
	}
}

// check reads the kernel and finds nothing to do.
func (n *node) check(t sources.Table, c mode.Config) {
	n.Helper()
	n.read()
	if p := plan.Once(n.mode.State(frontend.List(t, n.have.Node, c.Frontends), c), n.have); !p.Empty() || len(p.Conflicts) > 0 {
		n.Errorf("the next full check is not idle:\n%s", p)
	}
}

// cleanup removes everything, as the command does, and starts again.
func (n *node) cleanup() {
	n.Helper()
	n.read()
	n.apply(kernel.State{})
	if n.toggled {
		n.toggle()
	}
	r := readKernel(n)
	if ours := r.state(n); ours.String() != "" {
		n.Errorf("left over:\n%s", ours)
	}
	n.sameLines("after cleanup", n.before, r.others(false))
	n.sameLines("sysctls after cleanup", settings(n.beforeSysctls), settings(allSysctls(n)))
	n.forwardsIPv6 = false
	n.kernel.Close()
	n.stateDir = n.TempDir()
	n.open()
}

func (n *node) read() {
	n.Helper()
	var err error
	if n.have, err = n.kernel.Read(n.Context()); err != nil {
		n.Fatal(err)
	}
}

// apply carries out what is needed for a state, and advances the reading.
func (n *node) apply(want kernel.State) {
	n.Helper()
	n.count()
	p := plan.Once(want, n.have)
	if err := n.kernel.Apply(n.Context(), p); err != nil {
		n.Error(err)
	}
	var ok bool
	if n.have, ok = plan.Advance(n.have, p.Ops); !ok {
		n.read()
	}
}

// count brings the connections up to date, without which nothing is deleted. Those of packets that
// were sent do not count: real servers would drain for a minute.
func (n *node) count() {
	n.Helper()
	var reals []kernel.RealKey
	for _, r := range n.have.Reals.All() {
		reals = append(reals, r.Key)
	}
	conns, err := n.kernel.Conns(n.Context(), reals)
	if err != nil {
		n.Fatal(err)
	}
	if n.compared > 0 {
		clear(conns)
	}
	n.have.SetConns(reals, conns)
	n.have.Fresh = true
}

// compare checks that what the tools say is what is wanted, and that the rest is
// as it was.
func (n *node) compare(want kernel.State) {
	n.Helper()
	r := readKernel(n)
	have := r.state(n)
	var listeners []string
	if n.relay != nil { // which has the virtual and real servers
		listeners = listening(want.Virtuals)
		want.Virtuals, want.Reals = nil, kernel.Reals{}
	}
	n.sameLines("listeners", listeners, r.listeners)
	n.sameLines("virtual servers", lines(want.Virtuals), lines(have.Virtuals))
	n.sameLines("real servers", lines(want.Reals.Slice()), lines(have.Reals.Slice()))
	n.sameLines("sets", sets(want.Sets), sets(have.Sets))
	n.sameLines("entries", lines(want.Entries.Slice()), lines(have.Entries.Slice()))
	n.sameLines("chains", chains(want.Chains), chains(have.Chains))
	n.sameLines("links", lines(want.Links), lines(have.Links))
	n.sameLines("addresses", lines(want.Addrs), lines(have.Addrs))
	n.sameLines("routes", lines(want.Routes), lines(have.Routes))
	n.sameLines("proxy neighbours", lines(want.Neighbors), lines(have.Neighbors))
	n.compareSysctls(want.Sysctls)
	if !n.toggled {
		n.sameLines("what is foreign", n.before, r.others(true))
	}
}

// compareSysctls checks those that are wanted, and that others are as before. IPv6 forwarding stays after the
// last IPv6 service until nothing is forwarded any more.
func (n *node) compareSysctls(want []kernel.Sysctl) {
	n.Helper()
	names := slices.Concat(sysctlNames, []string{kernel.ProxyNDP("eth0"), kernel.ProxyNDP("eth1")})
	wanted := make(map[string]string)
	for _, name := range names {
		if value, ok := n.beforeSysctls[name]; ok {
			wanted[name] = value
		}
	}
	for _, s := range want {
		wanted[s.Name] = s.Value
	}
	n.forwardsIPv6 = wants(want, "net.ipv4.ip_forward") && (n.forwardsIPv6 || wants(want, kernel.ForwardingIPv6))
	if n.forwardsIPv6 {
		wanted[kernel.ForwardingIPv6] = "1"
	}
	have := make(map[string]string)
	for name := range wanted {
		have[name] = sysctl(n, name)
	}
	n.sameLines("sysctls", settings(wanted), settings(have))
}

func wants(sysctls []kernel.Sysctl, name string) bool {
	return slices.ContainsFunc(sysctls, func(s kernel.Sysctl) bool { return s.Name == name })
}

// sameLines shows what only one of two lists has.
func (n *node) sameLines(what string, want, have []string) {
	n.Helper()
	if slices.Equal(want, have) {
		return
	}
	var diff strings.Builder
	for _, l := range want {
		if !slices.Contains(have, l) {
			fmt.Fprintln(&diff, "-", l)
		}
	}
	for _, l := range have {
		if !slices.Contains(want, l) {
			fmt.Fprintln(&diff, "+", l)
		}
	}
	if diff.Len() == 0 {
		fmt.Fprintf(&diff, "another order:\n%s\nwant\n%s\n", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	n.Errorf("%s:\n%s", what, diff.String())
}

func lines[T fmt.Stringer](objects []T) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.String())
	}
	return all
}

// sets are sets without their size: one that is large enough is kept.
func sets(objects []kernel.Set) []string {
	objects = slices.Clone(objects)
	for i := range objects {
		objects[i].MaxElem = 0
	}
	return lines(objects)
}

// chains are chains and their rules without comments, each rule with its number
// so that order counts.
func chains(objects []kernel.Chain) []string {
	var all []string
	for _, c := range objects {
		if !c.BuiltIn() {
			all = append(all, fmt.Sprintf("%s %s %s", c.Family, c.Table, c.Name))
		}
		i := 0
		for rule := range strings.SplitSeq(c.Rules, "\n") {
			if rule != "" {
				i++
				all = append(all, fmt.Sprintf("%s %s %s %d: %s", c.Family, c.Table, c.Name, i, kernel.WithoutComment(rule)))
			}
		}
	}
	return all
}

func settings(values map[string]string) []string {
	var all []string
	for name, value := range values {
		all = append(all, name+" = "+value)
	}
	slices.Sort(all)
	return all
}
