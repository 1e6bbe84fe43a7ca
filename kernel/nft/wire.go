package nft

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Constants of linux/netfilter/nf_tables.h that package unix lacks.
const (
	setConcat     = 0x80 // NFT_SET_CONCAT
	tableDormant  = 1    // NFT_TABLE_F_DORMANT
	descConcat    = 2    // NFTA_SET_DESC_CONCAT
	fieldLen      = 1    // NFTA_SET_FIELD_LEN
	elemKeyEnd    = 10   // NFTA_SET_ELEM_KEY_END
	setExpr       = 17   // NFTA_SET_EXPR
	sizeofNfgen   = 4    // struct nfgenmsg
	typeOfVerdict = 0xffffff00
	connlimitMost = 1 // NFTA_CONNLIMIT_COUNT
	connlimitFlag = 2 // NFTA_CONNLIMIT_FLAGS
	connlimitOver = 1 // NFT_CONNLIMIT_F_INV
)

// base is where a base chain is in a packet's way.
type base struct {
	kind     string
	hook     uint32
	priority int32
}

// hooks are the base chains of each table of iptables: they stand for the kernel's chains there, at the same places.
var hooks = map[string]map[string]base{
	"raw": {
		"PREROUTING": {"filter", unix.NF_INET_PRE_ROUTING, -300},
		"OUTPUT":     {"filter", unix.NF_INET_LOCAL_OUT, -300},
	},
	"nat": {
		"PREROUTING":  {"nat", unix.NF_INET_PRE_ROUTING, -100},
		"INPUT":       {"nat", unix.NF_INET_LOCAL_IN, 100},
		"OUTPUT":      {"nat", unix.NF_INET_LOCAL_OUT, -100},
		"POSTROUTING": {"nat", unix.NF_INET_POST_ROUTING, 100},
	},
	kernel.LimitsTable: {"PREROUTING": {"nat", unix.NF_INET_PRE_ROUTING, -101}},
	"filter": {
		"INPUT":   {"filter", unix.NF_INET_LOCAL_IN, 0},
		"FORWARD": {"filter", unix.NF_INET_FORWARD, 0},
		"OUTPUT":  {"filter", unix.NF_INET_LOCAL_OUT, 0},
	},
}

// begin opens a message about a family.
func begin(b *nl.Batch, typ, flags uint16, f kernel.Family) {
	b.Begin(unix.NFNL_SUBSYS_NFTABLES<<8|typ, flags)
	b.Nfgen(uint8(f))
}

// limit begins or ends a transaction.
func limit(b *nl.Batch, typ uint16) {
	b.Begin(typ, 0)
	b.Raw([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES})
	b.End()
}

// ask opens a request.
func (t *Table) ask(typ uint16, family uint8) *nl.Batch {
	t.batch.Reset()
	begin(&t.batch, typ, 0, kernel.Family(family))
	return &t.batch
}

// payload removes the netfilter header from a message.
func payload(p []byte) (nl.Attrs, error) {
	if len(p) < sizeofNfgen {
		return nl.Attrs{}, fmt.Errorf("netfilter message of %d bytes", len(p))
	}
	return nl.ParseAttrs(p[sizeofNfgen:]), nil
}
