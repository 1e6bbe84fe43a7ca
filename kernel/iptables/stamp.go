package iptables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// stamp reports whether rules changed, without running a tool.
type stamp interface {
	// read returns an id that differs after every change of a rule in tables.
	read() (id string, err error)
	// present returns which of tables exist since the last read. For others iptables-save would
	// print nothing, and the legacy one would create them.
	present() ([]string, error)
	// chains returns the names of the chains of each of tables since the last read.
	chains() (map[string][]string, error)
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
	return &nftStamp{conn: c, family: nfproto[f]}, nil
}

// nftStamp is the generation id of the nftables ruleset in a namespace. The kernel changes it at
// each commit of rules by any program. Packets, counters, ipsets and readers do not change it
// (measured on Linux 6.18).
type nftStamp struct {
	conn   *nl.Conn
	family uint8 // NFPROTO_*, of present
	batch  nl.Batch
}

var nfproto = map[kernel.Family]uint8{kernel.IPv4: unix.NFPROTO_IPV4, kernel.IPv6: unix.NFPROTO_IPV6}

func (s *nftStamp) read() (string, error) {
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
			if a.Type() == unix.NFTA_GEN_ID {
				id, found = a.U32BE(), true
			}
		}
		return a.Err()
	})
	if err == nil && !found {
		err = fmt.Errorf("the kernel's answer has none")
	}
	if err != nil {
		return "", fmt.Errorf("nftables generation id: %w", err)
	}
	return string(binary.BigEndian.AppendUint32(nil, id)), nil
}

func (s *nftStamp) present() ([]string, error) {
	found := make(map[string]bool)
	err := s.dump(unix.NFT_MSG_GETTABLE, nil, func() { clear(found) }, func(_ uint8, a nl.Attrs) error {
		for a.Next() {
			if a.Type() == unix.NFTA_TABLE_NAME {
				found[a.Text()] = true
			}
		}
		return a.Err()
	})
	if errors.Is(err, nl.ErrInterrupted) {
		return tables, nil // another program writes without a pause, which iptables-save can handle
	}
	if err != nil {
		return nil, fmt.Errorf("nftables tables: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(tables), func(name string) bool { return !found[name] }), nil
}

func (s *nftStamp) chains() (map[string][]string, error) {
	found := make(map[string][]string)
	err := s.dump(unix.NFT_MSG_GETCHAIN, nil, func() { clear(found) }, func(_ uint8, a nl.Attrs) error {
		var table, name string
		for a.Next() {
			switch a.Type() {
			case unix.NFTA_CHAIN_TABLE:
				table = a.Text()
			case unix.NFTA_CHAIN_NAME:
				name = a.Text()
			}
		}
		found[table] = append(found[table], name)
		return a.Err()
	})
	if err != nil && !errors.Is(err, nl.ErrInterrupted) { // an interrupted one is read again, since the id has moved
		return nil, fmt.Errorf("nftables chains: %w", err)
	}
	return found, nil
}

// dump lists the objects of a family. ask adds attributes to the question; each gets the family of one object, with
// its attributes.
func (s *nftStamp) dump(message uint16, ask func(*nl.Batch), again func(), each func(uint8, nl.Attrs) error) error {
	s.batch.Reset()
	s.batch.Begin(unix.NFNL_SUBSYS_NFTABLES<<8|message, 0)
	s.batch.Nfgen(s.family)
	if ask != nil {
		ask(&s.batch)
	}
	s.batch.End()
	return s.conn.Dump(&s.batch, again, func(p []byte) error {
		if len(p) < 4 {
			return fmt.Errorf("%d bytes where a netfilter header belongs", len(p))
		}
		return each(p[0], nl.ParseAttrs(p[4:]))
	})
}

func (s *nftStamp) Close() error { return s.conn.Close() }
