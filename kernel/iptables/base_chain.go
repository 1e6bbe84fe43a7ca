package iptables

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// baseChains finds the barriers that iptables-save does not show: base chains in nftables tables of
// other programs.
//
// The tables are read with google/nftables, but only after their generation id has moved. The id is
// read in every check, by nftStamp.
type baseChains struct {
	dialer *nl.Dialer
	nft    []kernel.Family // families whose iptables writes nftables
	hidden []hiddenTable   // of the last Read
	stamp  *nftStamp       // nil until the kernel has nftables

	last       []kernel.Barrier // valid while cached
	lastHidden []hiddenTable
	lastID     string
	cached     bool
}

// open reports whether there is anything to read. If no iptables uses nftables and the kernel has
// not loaded it, open sends no request, because a request would load it.
func (b *baseChains) open() (bool, error) {
	if b.stamp != nil {
		return true, nil
	}
	if len(b.nft) == 0 && !nftablesLoaded() {
		return false, nil
	}
	c, err := b.dialer.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return false, fmt.Errorf("opening nftables: %w", err)
	}
	b.stamp = &nftStamp{conn: c}
	return true, nil
}

// nftablesLoaded reports whether the kernel has the module loaded, or has no loadable modules at
// all. In the second case nftables is either built in or missing.
func nftablesLoaded() bool {
	_, err := os.Stat("/sys/module/nf_tables")
	if err != nil {
		_, modular := os.Stat("/proc/modules")
		return errors.Is(modular, fs.ErrNotExist)
	}
	return true
}

func (b *baseChains) Close() error {
	if b.stamp == nil {
		return nil
	}
	return b.stamp.Close()
}

// read returns the barriers, without those in iptables' own chains. It lists chains and rules only
// if a rule changed since the last reading. If rules change while it reads, it returns the last
// barriers, and the next sync reads again.
func (b *baseChains) read() ([]kernel.Barrier, error) {
	if ok, err := b.open(); !ok {
		return nil, err
	}
	id, err := b.stamp.read()
	if err != nil {
		return nil, err
	}
	if b.cached && b.lastID == id && slices.Equal(b.lastHidden, b.hidden) {
		return b.last, nil
	}
	b.cached = false
	found, err := b.list()
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("nftables base chains: %w", err)
	}
	// google/nftables does not report a dump that was interrupted by a change (NLM_F_DUMP_INTR).
	after, err2 := b.stamp.read()
	if err2 != nil {
		return nil, err2
	}
	if err != nil || after != id {
		return b.last, nil
	}
	b.last, b.lastHidden, b.lastID, b.cached = found, b.hidden, id, true
	return found, nil
}

// list lists the base chains that our packets pass, without iptables' own, and their rules.
func (b *baseChains) list() ([]kernel.Barrier, error) {
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, err
	}
	defer conn.CloseLasting()
	chains, err := conn.ListChains()
	if err != nil {
		return nil, err
	}
	var found []kernel.Barrier
	for _, c := range chains {
		if hook(c) == "" || b.shows(c) {
			continue
		}
		found = append(found, barrier(c, rulesOf(conn, c))...)
	}
	return found, nil
}

// rulesOf returns the rules of a chain in the words of iptables. The library fails on a rule that it
// cannot decode. Such a chain may accept anything, so it counts as one unread rule.
func rulesOf(conn *nftables.Conn, c *nftables.Chain) []string {
	rules, err := conn.GetRules(c.Table, c)
	if err != nil {
		return []string{unread + " -j ACCEPT"}
	}
	all := make([]string, len(rules))
	for i, r := range rules {
		all[i] = words(r.Exprs)
	}
	return all
}

// hookNames has the names of the hooks in linux/netfilter.h by number.
var hookNames = [...]string{"prerouting", "input", "forward", "output", "postrouting"}

// tableFamilies are the families of tables whose base chains our packets pass.
var tableFamilies = map[nftables.TableFamily]struct {
	name string
	kernel.Family
}{
	nftables.TableFamilyINet: {"inet", 0},
	nftables.TableFamilyIPv4: {"ip", kernel.IPv4},
	nftables.TableFamilyIPv6: {"ip6", kernel.IPv6},
}

// hook returns the hook of a base chain that our packets pass, and "" for any other chain.
func hook(c *nftables.Chain) string {
	if c.Hooknum == nil || c.Table == nil || int(*c.Hooknum) >= len(hookNames) {
		return ""
	}
	if _, passed := tableFamilies[c.Table.Family]; !passed {
		return ""
	}
	return hookNames[*c.Hooknum]
}

// shows reports whether iptables-save shows the chain.
func (b *baseChains) shows(c *nftables.Chain) bool {
	f := tableFamilies[c.Table.Family].Family
	return c.Table.Name == "filter" && slices.Contains(b.nft, f) && (kernel.Chain{Name: c.Name}).BuiltIn() &&
		!slices.Contains(b.hidden, hiddenTable{f, "filter"})
}

// barrier returns the barrier that a base chain with these rules is, or nothing.
func barrier(c *nftables.Chain, rules []string) []kernel.Barrier {
	f := tableFamilies[c.Table.Family]
	policy := "ACCEPT"
	if c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
		policy = "DROP"
	}
	b := kernel.Barrier{Family: f.Family, Hook: hook(c),
		Name: fmt.Sprintf("nftables %s %s %s", f.name, c.Table.Name, c.Name)}
	return barred(b, map[string][]string{c.Name: rules}, c.Name, policy, kernel.Names{})
}
