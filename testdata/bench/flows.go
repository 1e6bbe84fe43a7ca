package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/conntrack"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

const (
	trackedFlows = 200_000
	doomedFlows  = 2_000 // of one virtual server's real server; as many again for each way
)

// flowAddrs are who talks to whom: clients from one on with two virtual servers, and
// the real servers behind them.
var flowAddrs = map[kernel.Family]struct {
	client                          netip.Addr
	vip, server, other, otherServer netip.AddrPort
}{
	kernel.IPv4: {
		netip.MustParseAddr("172.16.0.1"),
		netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("10.2.0.1:5353"),
		netip.MustParseAddrPort("10.96.9.9:53"), netip.MustParseAddrPort("10.2.0.2:5353"),
	},
	kernel.IPv6: {
		netip.MustParseAddr("fd00:172::1"),
		netip.MustParseAddrPort("[fd00:96::10]:53"), netip.MustParseAddrPort("[fd00:2::1]:5353"),
		netip.MustParseAddrPort("[fd00:96::99]:53"), netip.MustParseAddrPort("[fd00:2::2]:5353"),
	},
}

// The rows of flows: a dump can be asked for one port's flows whatever the family, and
// for one address's only in IPv4.
const (
	flowsRow        = "2,000 flows of 200,000"
	flowsOwnPortRow = "2,000 flows of 200,000, of a port of their own"
)

// flows removes what connection tracking knows of one real server among 200,000
// entries, by all three.
func (b *bench) flows(p *pass) error {
	a := flowAddrs[p.family]
	if err := fill(a.client, a.other, a.otherServer, trackedFlows); err != nil {
		return err
	}
	if err := p.doom(flowsRow, a.client, a.vip, a.server); err != nil {
		return err
	}
	return p.doom(flowsOwnPortRow, a.client, netip.AddrPortFrom(a.vip.Addr(), 5300), a.server)
}

// doom adds the flows of one virtual server and has each way remove them.
func (p *pass) doom(row string, client netip.Addr, vip, server netip.AddrPort) error {
	table, err := conntrack.Open(p.wire.dialer())
	if err != nil {
		return err
	}
	defer table.Close()
	handle, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer handle.Close()
	for _, way := range []struct {
		by string
		do func() error
	}{
		{"svcproxy", func() error {
			f := kernel.Flow{Key: kernel.RealKey{Virtual: kernel.VirtualAt(vip, kernel.UDP), Addr: server}}
			if errs := table.Apply([]kernel.Op{{Verb: kernel.Remove, Object: f}}); len(errs) > 0 {
				return errs[0]
			}
			return nil
		}},
		{"library", func() error {
			f := new(netlink.ConntrackFilter)
			if err := f.AddIP(netlink.ConntrackOrigDstIP, net.IP(vip.Addr().AsSlice())); err != nil {
				return err
			}
			n, err := handle.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.InetFamily(p.family), f)
			if err == nil && n != doomedFlows {
				err = fmt.Errorf("%d flows were deleted", n)
			}
			return err
		}},
		{"tools", func() error {
			_, err := p.node.Run("conntrack", "-D", "-f", strings.ToLower(p.family.String()), "-p", "udp",
				"--orig-dst", vip.Addr().String(), "--orig-port-dst", strconv.Itoa(int(vip.Port())))
			return err
		}},
	} {
		if err := fill(client, vip, server, doomedFlows); err != nil {
			return err
		}
		if err := p.lapBy(row, way.by, way.do); err != nil {
			return err
		}
		if left, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count"); err != nil || strings.TrimSpace(string(left)) != strconv.Itoa(trackedFlows) {
			return fmt.Errorf("%s left %s flows: %w", way.by, left, err)
		}
	}
	return nil
}

// Attributes of linux/netfilter/nfnetlink_conntrack.h.
const (
	tupleOrig, tupleReply, entryTimeout = 1, 2, 7
	tupleIP, tupleProto                 = 1, 2
	v4Source, v4Destination             = 1, 2
	v6Source, v6Destination             = 3, 4
	protoNumber, sourcePort, destPort   = 1, 2, 3
)

// fill adds entries of a UDP virtual server that lead to one real server, each of
// another client, the first of whom is given.
func fill(client netip.Addr, vip, server netip.AddrPort, n int) error {
	conn, err := new(nl.Dialer).Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer conn.Close()
	var b nl.Batch
	for range n {
		b.Begin(unix.NFNL_SUBSYS_CTNETLINK<<8, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
		b.Nfgen(uint8(kernel.FamilyOf(client)))
		putTuple(&b, tupleOrig, netip.AddrPortFrom(client, 1024), vip)
		putTuple(&b, tupleReply, server, netip.AddrPortFrom(client, 1024))
		b.U32BE(entryTimeout, 3600)
		b.End()
		client = client.Next()
	}
	return conn.Send(&b)
}

func putTuple(b *nl.Batch, typ uint16, from, to netip.AddrPort) {
	tuple := b.Nest(typ)
	addrs := b.Nest(tupleIP)
	source, destination := uint16(v4Source), uint16(v4Destination)
	if from.Addr().Is6() {
		source, destination = v6Source, v6Destination
	}
	b.Attr(source, from.Addr().AsSlice())
	b.Attr(destination, to.Addr().AsSlice())
	b.EndNest(addrs)
	proto := b.Nest(tupleProto)
	b.U8(protoNumber, uint8(kernel.UDP))
	b.U16BE(sourcePort, from.Port())
	b.U16BE(destPort, to.Port())
	b.EndNest(proto)
	b.EndNest(tuple)
}
