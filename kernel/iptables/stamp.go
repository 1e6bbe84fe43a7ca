package iptables

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// stamp tells whether rules have changed, without running a tool.
type stamp interface {
	// read gives an id that is another one after every change to a rule of
	// tables, and which of tables there are. iptables-save is not run for one
	// that is not there: it would create it.
	read() (id string, present []string, err error)
	Close() error
}

func newStamp(f kernel.Family, t Tool, d *nl.Dialer) (stamp, error) {
	if !t.NFT {
		return newLegacyStamp(f)
	}
	c, err := d.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	return &nftStamp{conn: c}, nil
}

// nftStamp is the generation id of the namespace's nftables ruleset. The kernel
// moves it at each commit of rules, whoever made them; packets, their counters,
// ipsets and readers leave it (measured on Linux 6.18).
type nftStamp struct {
	conn  *nl.Conn
	batch nl.Batch
}

// NFTA_GEN_ID of linux/netfilter/nf_tables.h: 32 bits in network order.
const attrGenID = 1

func (s *nftStamp) read() (string, []string, error) {
	s.batch.Reset()
	s.batch.Begin(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	s.batch.Nfgen(unix.AF_UNSPEC)
	s.batch.End()
	var id uint32
	found := false
	err := s.conn.Get(&s.batch, func(p []byte) error {
		if len(p) < 4 {
			return fmt.Errorf("%d bytes where a netfilter header belongs", len(p))
		}
		a := nl.ParseAttrs(p[4:])
		for a.Next() {
			if a.Type() == attrGenID {
				id, found = a.U32BE(), true
			}
		}
		return a.Err()
	})
	if err == nil && !found {
		err = fmt.Errorf("the kernel's answer has none")
	}
	if err != nil {
		return "", nil, fmt.Errorf("nftables generation id: %w", err)
	}
	return string(binary.BigEndian.AppendUint32(nil, id)), tables, nil
}

func (s *nftStamp) Close() error { return s.conn.Close() }
