package iptables

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Hold makes the kernel go on tracking and translating the connections that it knows while there is no rule, as
// after nft flush ruleset. It would stop with the last rule that needs that, and answer packets of masqueraded
// connections with a reset. Hold creates a table of nftables whose owner is a socket, so other programs cannot
// remove it. The kernel removes the table when the socket is closed, also if the process is killed. The table
// changes no packet.
//
// Without rules of ours in nftables it does nothing: a flush does not remove those of the legacy tables. Linux before
// 5.12 has no owners, and refuses.
func (t *Tables) Hold() error {
	if len(t.bases.nft) == 0 || t.held != nil {
		return nil
	}
	c, err := t.bases.dialer.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	if err := c.Commit(heldTable(), nil); err != nil {
		c.Close()
		return fmt.Errorf("creating table inet %s of nftables: %w", holder, err)
	}
	t.held = c
	return nil
}

// holder is the name of the table, and of its rule's chain.
const holder = "svcproxy"

// Constants of linux/netfilter/nf_tables.h that package unix lacks.
const (
	tableOwner    = 2 // NFT_TABLE_F_OWNER
	tableUserdata = 6 // NFTA_TABLE_USERDATA
)

// heldTable returns the transaction that creates the table: chains of nat at both ends of a packet's way, behind those
// of others, and a rule that asks for a connection's direction and has no verdict. A chain of nat alone does not make
// the kernel track connections.
func heldTable() *nl.Batch {
	b := new(nl.Batch)
	begin := func(typ, flags uint16) {
		b.Begin(unix.NFNL_SUBSYS_NFTABLES<<8|typ, flags)
		b.Nfgen(unix.NFPROTO_INET)
	}
	limit := func(typ uint16) {
		b.Begin(typ, 0)
		b.Raw([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES})
		b.End()
	}
	limit(unix.NFNL_MSG_BATCH_BEGIN)
	begin(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b.Text(unix.NFTA_TABLE_NAME, holder)
	b.U32BE(unix.NFTA_TABLE_FLAGS, tableOwner)
	const comment = "keeps connections while rules are flushed; leave it out of a saved ruleset\x00"
	b.Attr(tableUserdata, append([]byte{0, byte(len(comment))}, comment...)) // NFTNL_UDATA_TABLE_COMMENT
	b.End()
	for _, c := range []struct {
		name     string
		hook     uint32
		priority int32
	}{
		{"prerouting", unix.NF_INET_PRE_ROUTING, -90},   // after dstnat
		{"postrouting", unix.NF_INET_POST_ROUTING, 110}, // after srcnat
	} {
		begin(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE)
		b.Text(unix.NFTA_CHAIN_TABLE, holder)
		b.Text(unix.NFTA_CHAIN_NAME, c.name)
		hook := b.Nest(unix.NFTA_CHAIN_HOOK)
		b.U32BE(unix.NFTA_HOOK_HOOKNUM, c.hook)
		b.U32BE(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))
		b.EndNest(hook)
		b.Text(unix.NFTA_CHAIN_TYPE, "nat")
		b.End()
	}
	begin(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
	b.Text(unix.NFTA_RULE_TABLE, holder)
	b.Text(unix.NFTA_RULE_CHAIN, "prerouting")
	rule := b.Nest(unix.NFTA_RULE_EXPRESSIONS)
	expression(b, "ct", func() {
		b.U32BE(unix.NFTA_CT_DREG, unix.NFT_REG_1)
		b.U32BE(unix.NFTA_CT_KEY, unix.NFT_CT_DIRECTION)
	})
	expression(b, "cmp", func() {
		b.U32BE(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		b.U32BE(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ)
		data := b.Nest(unix.NFTA_CMP_DATA)
		b.U8(unix.NFTA_DATA_VALUE, 0) // original
		b.EndNest(data)
	})
	b.EndNest(rule)
	b.End()
	limit(unix.NFNL_MSG_BATCH_END)
	return b
}

// expression adds an expression of a rule.
func expression(b *nl.Batch, name string, attrs func()) {
	elem := b.Nest(unix.NFTA_LIST_ELEM)
	b.Text(unix.NFTA_EXPR_NAME, name)
	data := b.Nest(unix.NFTA_EXPR_DATA)
	attrs()
	b.EndNest(data)
	b.EndNest(elem)
}
