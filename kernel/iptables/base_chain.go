package iptables

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// baseChains finds the barriers in nftables that iptables does not show: those of
// tables that other tools have made.
type baseChains struct {
	dialer *nl.Dialer
	shown  []kernel.Family // those whose iptables writes nftables
	stamp  *nftStamp       // nil until the kernel has nftables

	last   []kernel.Barrier // valid while cached
	lastID string
	cached bool
}

// open says whether there is anything to read. Where no iptables uses nftables,
// and the kernel has not loaded it, it is not asked: that would.
func (b *baseChains) open() (bool, error) {
	if b.stamp != nil {
		return true, nil
	}
	if len(b.shown) == 0 && !nftablesLoaded() {
		return false, nil
	}
	c, err := b.dialer.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return false, fmt.Errorf("opening nftables: %w", err)
	}
	b.stamp = &nftStamp{conn: c}
	return true, nil
}

// nftablesLoaded says whether the kernel has the module, or is one that loads none
// and has what it was built with.
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

// read gives the barriers but those in iptables' own chains. It dumps nothing when
// no rule has changed since the last reading.
func (b *baseChains) read() ([]kernel.Barrier, error) {
	if ok, err := b.open(); !ok {
		return nil, err
	}
	id, err := b.stamp.read()
	if err != nil {
		return nil, err
	}
	if b.cached && b.lastID == id {
		return b.last, nil
	}
	b.cached = false
	var found []kernel.Barrier
	chains, err := b.chains()
	for _, c := range chains {
		if err != nil {
			break
		}
		var rules []string
		if rules, err = b.rules(c); err == nil {
			found = append(found, c.barrier(rules)...)
		}
	}
	if errors.Is(err, nl.ErrInterrupted) || errors.Is(err, unix.ENOENT) {
		return b.last, nil // somebody writes without a pause: the next round reads again
	}
	if err != nil {
		return nil, fmt.Errorf("nftables base chains: %w", err)
	}
	b.last, b.lastID, b.cached = found, id, true
	return found, nil
}

// chains lists the base chains that our packets pass, without iptables' own.
func (b *baseChains) chains() ([]baseChain, error) {
	var all []baseChain
	batch := &b.stamp.batch
	batch.Reset()
	batch.Begin(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, 0)
	batch.Nfgen(unix.AF_UNSPEC)
	batch.End()
	err := b.stamp.conn.Dump(batch, func() { all = all[:0] }, func(p []byte) error {
		c, err := decodeBaseChain(p)
		if err == nil && c.hook != "" && !c.shownBy(b.shown) {
			all = append(all, c)
		}
		return err
	})
	return all, err
}

// rules lists a chain's rules in the words of iptables.
func (b *baseChains) rules(c baseChain) ([]string, error) {
	var all []string
	b.stamp.batch.Reset()
	putGetRules(&b.stamp.batch, c)
	err := b.stamp.conn.Dump(&b.stamp.batch, func() { all = all[:0] }, func(p []byte) error {
		rule, err := decodeRule(p)
		all = append(all, rule)
		return err
	})
	return all, err
}

// baseChain is a chain of nftables as far as it matters; one that is no base chain,
// or one that our packets do not pass, has no hook.
type baseChain struct {
	family      uint8 // NFPROTO_*
	table, name string
	hook        string
	drops       bool // by its policy
}

// Numbers of linux/netfilter/nf_tables.h.
const (
	chainTable  = 1
	chainName   = 3
	chainHook   = 4
	chainPolicy = 5
	hookNumber  = 1
	policyDrop  = 0 // NF_DROP
)

// hookNames by their numbers in linux/netfilter.h.
var hookNames = [...]string{"prerouting", "input", "forward", "output", "postrouting"}

// protocolFamilies are those whose base chains our packets pass.
var protocolFamilies = map[uint8]struct {
	name string
	kernel.Family
}{
	unix.NFPROTO_INET: {"inet", 0}, unix.NFPROTO_IPV4: {"ip", kernel.IPv4}, unix.NFPROTO_IPV6: {"ip6", kernel.IPv6},
}

// decodeBaseChain reads an NFT_MSG_NEWCHAIN message.
func decodeBaseChain(p []byte) (baseChain, error) {
	if len(p) < 4 {
		return baseChain{}, fmt.Errorf("%d bytes where a netfilter header belongs", len(p))
	}
	c := baseChain{family: p[0]}
	a := nl.ParseAttrs(p[4:])
	for a.Next() {
		switch a.Type() {
		case chainTable:
			c.table = a.Text()
		case chainName:
			c.name = a.Text()
		case chainPolicy:
			c.drops = a.U32BE() == policyDrop
		case chainHook:
			h := a.Nested()
			for h.Next() {
				if h.Type() == hookNumber {
					if n := h.U32BE(); n < uint32(len(hookNames)) {
						c.hook = hookNames[n]
					}
				}
			}
			if h.Err() != nil {
				return baseChain{}, h.Err()
			}
		}
	}
	if _, passed := protocolFamilies[c.family]; !passed {
		c.hook = ""
	}
	return c, a.Err()
}

// shownBy says whether iptables-save shows the chain for one of these families.
func (c baseChain) shownBy(families []kernel.Family) bool {
	f := protocolFamilies[c.family].Family
	return c.table == "filter" && slices.Contains(families, f) && (kernel.Chain{Name: c.name}).BuiltIn()
}

// barrier is the chain with these rules as a barrier, or none.
func (c baseChain) barrier(rules []string) []kernel.Barrier {
	f := protocolFamilies[c.family]
	policy := "ACCEPT"
	if c.drops {
		policy = "DROP"
	}
	b := kernel.Barrier{Family: f.Family, Hook: c.hook, Name: fmt.Sprintf("nftables %s %s %s", f.name, c.table, c.name)}
	return barred(b, map[string][]string{c.name: rules}, c.name, policy, kernel.Names{})
}
