package iptables

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// baseChains finds the base chains that iptables-save does not show: those of tables of nftables.
//
// Their rules are read with google/nftables, but only after the generation id has moved. The id is
// read in every check, by nftStamp.
type baseChains struct {
	dialer *nl.Dialer
	nft    []kernel.Family // families whose iptables writes nftables
	stamp  *nftStamp       // nil until the kernel has nftables

	last      []kernel.BaseChain // valid while cached
	lastShown []shownTable
	lastID    string
	cached    bool
}

// shownTable is a table of nftables that iptables-save shows.
type shownTable struct {
	kernel.Family
	name string
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

// read returns the base chains that may end a packet's way, or change it, without those of the tables that are shown
// elsewhere. It lists chains and rules only if a rule changed since the last reading. If rules change while it reads,
// it returns the last ones, and the next sync reads again.
func (b *baseChains) read(shown []shownTable, names kernel.Names) ([]kernel.BaseChain, error) {
	if ok, err := b.open(); !ok {
		return nil, err
	}
	id, err := b.stamp.read()
	if err != nil {
		return nil, err
	}
	if b.cached && b.lastID == id && slices.Equal(b.lastShown, shown) {
		return b.last, nil
	}
	b.cached = false
	found, err := b.list(shown, names, false)
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
	b.last, b.lastShown, b.lastID, b.cached = found, shown, id, true
	return found, nil
}

// list lists the base chains that packets pass, with their rules. deep: elements of named sets are read, too, which
// may be many.
func (b *baseChains) list(shown []shownTable, names kernel.Names, deep bool) ([]kernel.BaseChain, error) {
	all, err := b.stamp.baseChains()
	if err != nil {
		return nil, err
	}
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, err
	}
	defer conn.CloseLasting()
	var found []kernel.BaseChain
	tables := make(map[nftTable]*nftReader)
	for _, c := range all {
		t := nftTable{c.family, c.table}
		f := nftFamilies[c.family]
		if c.hook == "" || f.name == "" || slices.Contains(shown, shownTable{f.Family, c.table}) {
			continue
		}
		if tables[t] == nil {
			tables[t] = &nftReader{conn: conn, stamp: b.stamp, table: t, deep: deep, rules: make(map[string][]string)}
			for _, other := range all {
				if (nftTable{other.family, other.table}) == t {
					tables[t].rules[other.name] = nil
				}
			}
		}
		found = append(found, follow(kernel.BaseChain{Family: f.Family, Hook: c.hook, Links: c.links,
			Priority: c.priority, Policy: c.policy, Name: fmt.Sprintf("nftables %s %s %s", f.name, c.table, c.name)},
			c.name, tables[t].chain, func(chain string) bool { return names.OwnsChain(c.table, chain) })...)
		if err := tables[t].err; err != nil {
			return nil, err
		}
	}
	return found, nil
}

// nftTable is a table of nftables.
type nftTable struct {
	family nftables.TableFamily
	name   string
}

// hookNames has the names of the hooks in linux/netfilter.h by number. Only family inet has the last one.
var hookNames = [...]string{"prerouting", "input", "forward", "output", "postrouting", "ingress"}

// nftFamilies are the families of tables whose base chains our packets may pass.
var nftFamilies = map[nftables.TableFamily]struct {
	name string
	kernel.Family
	hooks []string
}{
	nftables.TableFamilyINet:   {"inet", 0, hookNames[:]},
	nftables.TableFamilyIPv4:   {"ip", kernel.IPv4, hookNames[:5]},
	nftables.TableFamilyIPv6:   {"ip6", kernel.IPv6, hookNames[:5]},
	nftables.TableFamilyNetdev: {"netdev", 0, []string{"ingress", "egress"}},
	nftables.TableFamilyBridge: {"bridge", 0, []string{"bridge-prerouting", "bridge-input", "bridge-forward",
		"bridge-output", "bridge-postrouting"}},
}

// nftChain is a chain of nftables.
type nftChain struct {
	family              nftables.TableFamily
	table, name         string
	hook, links, policy string // hook is "" if it is no base chain
	priority            int32
}

// hookDevices is NFTA_HOOK_DEVS of linux/netfilter/nf_tables.h: the devices of a chain that has several.
const hookDevices = 4

// baseChains lists all chains. google/nftables does not tell the devices of those at hooks ingress and egress.
func (s *nftStamp) baseChains() (all []nftChain, err error) {
	err = s.dump(unix.NFT_MSG_GETCHAIN, nil, func() { all = nil }, func(family uint8, a nl.Attrs) error {
		c := nftChain{family: nftables.TableFamily(family), policy: "accept"}
		for a.Next() {
			switch a.Type() {
			case unix.NFTA_CHAIN_TABLE:
				c.table = a.Text()
			case unix.NFTA_CHAIN_NAME:
				c.name = a.Text()
			case unix.NFTA_CHAIN_POLICY:
				if a.U32BE() == 0 { // NF_DROP
					c.policy = "drop"
				}
			case unix.NFTA_CHAIN_HOOK:
				if err := c.at(a.Nested()); err != nil {
					return err
				}
			}
		}
		all = append(all, c)
		return a.Err()
	})
	return all, err
}

// at reads the hook of a base chain.
func (c *nftChain) at(a nl.Attrs) error {
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_HOOK_HOOKNUM:
			if hooks, n := nftFamilies[c.family].hooks, a.U32BE(); int(n) < len(hooks) {
				c.hook = hooks[n]
			}
		case unix.NFTA_HOOK_PRIORITY:
			c.priority = int32(a.U32BE())
		case unix.NFTA_HOOK_DEV:
			c.links = a.Text()
		case hookDevices:
			var links []string
			devices := a.Nested()
			for devices.Next() {
				links = append(links, devices.Text())
			}
			if err := devices.Err(); err != nil {
				return err
			}
			c.links = strings.Join(links, ",")
		}
	}
	return a.Err()
}
