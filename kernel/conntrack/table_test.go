package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

func open(t testing.TB, d *nl.Dialer) *Table {
	t.Helper()
	kerneltest.NewNamespace(t)
	c, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// flow parses "udp 10.96.0.10:53 10.2.0.1:5353".
func flow(s string) kernel.Flow {
	f := strings.Fields(s)
	proto, err := kernel.ParseProto(f[0])
	if err != nil {
		panic(err)
	}
	return kernel.Flow{Key: kernel.RealKey{
		Virtual: kernel.VirtualAt(netip.MustParseAddrPort(f[1]), proto),
		Addr:    netip.MustParseAddrPort(f[2]),
	}}
}

func remove(flows ...string) []kernel.Op {
	ops := make([]kernel.Op, len(flows))
	for i, s := range flows {
		ops[i] = kernel.Op{Verb: kernel.Remove, Object: flow(s), Was: flow(s)}
	}
	return ops
}

func apply(t testing.TB, c *Table, ops []kernel.Op) {
	t.Helper()
	if err := kernel.Failures(ops, c.Apply(ops)); err != nil {
		t.Fatal(err)
	}
}

// insert adds an entry from client port 1000+n, with the tool conntrack.
func insert(t testing.TB, n int, s string, more ...string) {
	t.Helper()
	k := flow(s).Key
	client := "192.0.2.9"
	if k.Virtual.Family() == kernel.IPv6 {
		client = "2001:db8::9"
	}
	args := append([]string{"-I", "-t", "600", "-p", k.Virtual.Proto.String(),
		"-s", client, "-d", k.Virtual.Addr.String(),
		"--sport", fmt.Sprint(1000 + n), "--dport", fmt.Sprint(k.Virtual.Port),
		"-r", k.Addr.Addr().String(), "-q", client,
		"--reply-port-src", fmt.Sprint(k.Addr.Port()), "--reply-port-dst", fmt.Sprint(1000 + n),
	}, more...)
	switch k.Virtual.Proto {
	case kernel.TCP:
		args = append(args, "--state", "ESTABLISHED")
	case kernel.SCTP:
		args = append(args, "--state", "ESTABLISHED", "--orig-vtag", "1", "--reply-vtag", "2")
	}
	kerneltest.Run(t, "conntrack", args...)
}

// listed returns the entries that the tool conntrack lists, in the form of flow, with their zone,
// sorted.
func listed(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, family := range []string{"ipv4", "ipv6"} {
		for line := range strings.Lines(kerneltest.Run(t, "conntrack", "-L", "-f", family)) {
			f := strings.Fields(line)
			if f[0] == "conntrack" {
				continue // the summary of the tool
			}
			var src, dst, sport, dport []string
			zone := ""
			for _, word := range f {
				key, value, _ := strings.Cut(word, "=")
				switch key {
				case "src":
					src = append(src, value)
				case "dst":
					dst = append(dst, value)
				case "sport":
					sport = append(sport, value)
				case "dport":
					dport = append(dport, value)
				case "zone", "zone-orig", "zone-reply":
					zone = " " + word
				}
			}
			if len(src) != 2 || len(sport) != 2 {
				t.Fatalf("conntrack prints %q", line)
			}
			all = append(all, f[0]+" "+net.JoinHostPort(dst[0], dport[0])+" "+net.JoinHostPort(src[1], sport[1])+zone)
		}
	}
	slices.Sort(all)
	return all
}

func remains(t testing.TB, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := listed(t); !slices.Equal(got, want) {
		t.Errorf("left are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOnlyTheFlowGoes(t *testing.T) {
	c := open(t, nil)
	gone := []string{
		"udp 10.96.0.10:53 10.2.0.1:5353",
		"udp 10.96.0.10:53 10.2.0.2:5353",
		"udp [fd00:96::10]:53 [fd00:2::1]:5353",
		"sctp 10.96.0.10:3868 10.2.0.1:3868",
	}
	stay := []string{
		"udp 10.96.0.10:53 10.2.0.3:5353",   // another real server
		"udp 10.96.0.10:53 10.2.0.1:5354",   // another port of it
		"udp 10.96.0.10:54 10.2.0.1:5353",   // another port of the VIP
		"udp 198.51.100.1:53 10.2.0.1:5353", // another host
		"udp 198.51.100.1:53 198.51.100.1:53",
		"tcp 10.96.0.10:53 10.2.0.1:5353",
		"udp [fd00:96::10]:53 [fd00:2::2]:5353",
		"tcp [fd00:96::10]:53 [fd00:2::1]:5353",
		"sctp 10.96.0.10:3868 10.2.0.2:3868",
		"sctp 10.96.0.10:3869 10.2.0.1:3868",
	}
	for i, s := range append(slices.Clone(gone), stay...) {
		insert(t, i, s)
	}
	insert(t, 100, gone[0])
	if n := len(listed(t)); n != len(gone)+len(stay)+1 {
		t.Fatalf("%d entries went in", n)
	}
	apply(t, c, remove(append(gone, "udp 10.96.0.10:53 10.2.0.4:5353", "udp 10.96.0.99:53 10.2.0.4:5353", gone[0])...))
	remains(t, stay...)
	if n4, n6 := c.Deleted(kernel.IPv4), c.Deleted(kernel.IPv6); n4 != 4 || n6 != 1 {
		t.Errorf("%d and %d entries are said to be deleted", n4, n6)
	}
	if c.ignoresFilter {
		t.Error("the kernel answered more than it was asked")
	}
	apply(t, c, remove("tcp 10.96.0.10:53 10.2.0.1:5353"))
	if slices.Contains(listed(t), "tcp 10.96.0.10:53 10.2.0.1:5353") {
		t.Error("a TCP flow does not go when it is asked for")
	}
}

// For more than mostFiltered virtual servers, everything is listed, once for each family.
func TestManyVirtualServers(t *testing.T) {
	c := open(t, nil)
	var gone, stay []string
	for i := range 3 * mostFiltered {
		gone = append(gone, fmt.Sprintf("udp 10.96.0.%d:53 10.2.0.1:5353", i))
		stay = append(stay, fmt.Sprintf("udp 10.96.0.%d:53 10.2.0.2:5353", i))
	}
	for i, s := range append(slices.Clone(gone), stay...) {
		insert(t, i, s)
	}
	insert(t, 0, "udp [fd00:96::10]:53 [fd00:2::1]:5353")
	before := c.Stats()
	apply(t, c, remove(append(gone, "udp [fd00:96::10]:53 [fd00:2::1]:5353")...))
	remains(t, stay...)
	if q := c.Stats().Queries - before.Queries; q != 2 {
		t.Errorf("%d dumps", q)
	}
}

func TestZones(t *testing.T) {
	c := open(t, nil)
	const gone, stay = "udp 10.96.0.10:53 10.2.0.1:5353", "udp 10.96.0.10:53 10.2.0.2:5353"
	insert(t, 0, gone)
	insert(t, 0, gone, "--zone", "7")
	insert(t, 1, gone, "--orig-zone", "8")
	insert(t, 2, gone, "--reply-zone", "8")
	insert(t, 0, stay, "--zone", "9")
	apply(t, c, remove(gone))
	remains(t, stay+" zone=9")
}

// A datagram through the kernel's own NAT, instead of entries made by hand.
func TestTrafficThroughNAT(t *testing.T) {
	c := open(t, nil)
	for _, line := range []string{
		"ip addr add 10.96.0.10/32 dev lo",
		"ip addr add 10.2.0.1/32 dev lo",
		"iptables -t nat -A OUTPUT -d 10.96.0.10 -p udp --dport 53 -j DNAT --to-destination 10.2.0.1:5353",
	} {
		f := strings.Fields(line)
		kerneltest.Run(t, f[0], f[1:]...)
	}
	server, err := net.ListenPacket("udp", "10.2.0.1:5353")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, to := range []string{"10.96.0.10:53", "10.2.0.1:5353"} {
		conn, err := net.Dial("udp", to)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
	}
	const direct, through = "udp 10.2.0.1:5353 10.2.0.1:5353", "udp 10.96.0.10:53 10.2.0.1:5353"
	remains(t, direct, through)
	apply(t, c, remove(through))
	remains(t, direct)
}

// Traffic through IPVS. The reply source is the real server only with net.ipv4.vs.conntrack.
func TestTrafficThroughIPVS(t *testing.T) {
	kerneltest.Need(t, kerneltest.IPVS)
	c := open(t, nil)
	for _, line := range []string{
		"sysctl -qw net.ipv4.vs.conntrack=1",
		"ip addr add 10.96.0.10/32 dev lo",
		"ip addr add 10.2.0.1/32 dev lo",
		"ipvsadm -A -u 10.96.0.10:53 -s rr",
		"ipvsadm -a -u 10.96.0.10:53 -r 10.2.0.1:5353 -m",
	} {
		f := strings.Fields(line)
		kerneltest.Run(t, f[0], f[1:]...)
	}
	// Connection tracking starts when a rule needs it. IPVS alone does not start it.
	kerneltest.Run(t, "iptables", "-t", "nat", "-A", "POSTROUTING", "-s", "203.0.113.9", "-j", "MASQUERADE")
	server, err := net.ListenPacket("udp", "10.2.0.1:5353")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := net.Dial("udp", "10.96.0.10:53")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	remains(t, "udp 10.96.0.10:53 10.2.0.1:5353")
	apply(t, c, remove("udp 10.96.0.10:53 10.2.0.1:5353"))
	remains(t)
}

func TestOtherOpsAreRefused(t *testing.T) {
	c := open(t, nil)
	f := flow("udp 10.96.0.10:53 10.2.0.1:5353")
	errs := c.Apply([]kernel.Op{{Verb: kernel.Add, Object: f}, {Verb: kernel.Remove, Object: kernel.Link{Name: "lo"}}})
	if errs[0] == nil || errs[1] == nil {
		t.Errorf("errors %v", errs)
	}
}

// fill adds n entries of a virtual server through ctnetlink, with real servers 10.2.0.0 to
// 10.2.0.3. Those of TCP are established.
func fill(t testing.TB, n int, proto kernel.Proto, v netip.AddrPort) {
	t.Helper()
	conn, err := new(nl.Dialer).Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var b nl.Batch
	for i := range n {
		client := netip.AddrFrom4([4]byte{byte(100 + v.Addr().As4()[3]), byte(i >> 22), byte(i >> 14), byte(i >> 6)})
		putEntry(&b, proto, client, v, netip.AddrFrom4([4]byte{10, 2, 0, byte(i % 4)}), uint16(1024+i%64))
	}
	if err := conn.Send(&b); err != nil {
		t.Fatal(err)
	}
}

func putEntry(b *nl.Batch, protocol kernel.Proto, client netip.Addr, v netip.AddrPort, server netip.Addr, port uint16) {
	tuple := func(typ uint16, src, dst netip.Addr, srcPort, dstPort uint16) {
		nest := b.Nest(typ)
		addrs := b.Nest(attrTupleIP)
		b.Attr(attrIPv4Src, src.AsSlice())
		b.Attr(attrIPv4Dst, dst.AsSlice())
		b.EndNest(addrs)
		proto := b.Nest(attrTupleProto)
		b.U8(attrProto, uint8(protocol))
		b.U16BE(attrSrcPort, srcPort)
		b.U16BE(attrDstPort, dstPort)
		b.EndNest(proto)
		b.EndNest(nest)
	}
	b.Begin(unix.NFNL_SUBSYS_CTNETLINK<<8, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b.Nfgen(unix.AF_INET)
	tuple(attrTupleOrig, client, v.Addr(), port, v.Port())
	tuple(attrTupleReply, server, client, 5353, port)
	b.U32BE(attrTimeout, 600)
	if protocol == kernel.TCP {
		b.U32BE(attrStatus, seenReply|1<<3) // IPS_CONFIRMED, which every entry has
		info := b.Nest(attrProtoInfo)
		tcp := b.Nest(attrProtoInfoTCP)
		b.U8(attrTCPState, 3) // TCP_CONNTRACK_ESTABLISHED
		b.EndNest(tcp)
		b.EndNest(info)
	}
	b.End()
}

func TestSystemCalls(t *testing.T) {
	c := open(t, nil)
	const n = 2000
	vip, other := netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("10.96.0.11:53")
	fill(t, n, kernel.UDP, vip)
	fill(t, 24*n, kernel.UDP, other)
	before := c.Stats()
	apply(t, c, remove("udp 10.96.0.10:53 10.2.0.0:5353", "udp 10.96.0.10:53 10.2.0.1:5353"))
	after := c.Stats()
	if got := c.Deleted(kernel.IPv4); got != n/2 {
		t.Errorf("%d entries went, want %d", got, n/2)
	}
	if m := after.Messages - before.Messages; m != n/2 || after.Queries-before.Queries != 1 {
		t.Errorf("%d deletions sent and %d dumps", m, after.Queries-before.Queries)
	}
	// There are 2,000 entries of about 180 bytes, at most 32 KiB in a datagram, and 250 deletions
	// in a send.
	if calls := after.Sends - before.Sends + after.Receives - before.Receives; calls > 130 {
		t.Errorf("%d system calls", calls)
	} else {
		t.Log(calls, "system calls")
	}
	before = after
	apply(t, c, remove("udp 10.96.0.12:53 10.2.0.0:5353"))
	after = c.Stats()
	if s, r := after.Sends-before.Sends, after.Receives-before.Receives; s != 1 || r > 2 {
		t.Errorf("nothing to delete among %d entries took %d sends and %d receives", 25*n, s, r)
	}
}

// old removes the filter from each dump, because kernels before 5.8 ignore it.
type old struct{ nl.Transport }

func (o old) Send(p []byte) error {
	if binary.NativeEndian.Uint16(p[4:]) == msgGet {
		p = slices.Clone(p[:unix.SizeofNlMsghdr+sizeofNfgenmsg])
		binary.NativeEndian.PutUint32(p, uint32(len(p)))
	}
	return o.Transport.Send(p)
}

func TestKernelWithoutFilter(t *testing.T) {
	c := open(t, &nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport { return old{tr} }})
	gone := []string{"udp 10.96.0.10:53 10.2.0.1:5353", "udp 10.96.0.11:53 10.2.0.1:5353", "udp 10.96.0.12:53 10.2.0.1:5353"}
	const stay = "tcp 10.96.0.10:53 10.2.0.1:5353"
	for i, s := range append(gone, stay) {
		insert(t, i, s)
	}
	before := c.Stats()
	apply(t, c, remove(gone...))
	remains(t, stay)
	insert(t, 9, gone[1])
	apply(t, c, remove(gone...))
	remains(t, stay)
	if q := c.Stats().Queries - before.Queries; q != 2 {
		t.Errorf("%d dumps, want one for each call", q)
	}
}

// late runs a function between the dump and the deletions.
type late struct {
	nl.Transport
	first func()
}

func (l *late) Send(p []byte) error {
	if binary.NativeEndian.Uint16(p[4:]) == msgDelete && l.first != nil {
		l.first()
		l.first = nil
	}
	return l.Transport.Send(p)
}

// An entry that goes by itself counts as deleted. An entry that took its tuple is another flow.
func TestTupleReused(t *testing.T) {
	const key, reused = "udp 10.96.0.10:53 10.2.0.1:5353", "udp 10.96.0.10:53 10.2.0.2:5353"
	c := open(t, &nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport {
		return &late{tr, func() {
			kerneltest.Run(t, "conntrack", "-D", "-p", "udp", "-d", "10.96.0.10")
			insert(t, 1, reused)
		}}
	}})
	insert(t, 0, key)
	insert(t, 1, key)
	apply(t, c, remove(key))
	remains(t, reused)
	if n := c.Deleted(kernel.IPv4); n != 0 {
		t.Errorf("%d entries are said to be deleted", n)
	}
}

var errDead = errors.New("the transport died")

// deaf drops the answers to deletions.
type deaf struct {
	nl.Transport
	now bool
}

func (d *deaf) Send(p []byte) error {
	d.now = binary.NativeEndian.Uint16(p[4:]) == msgDelete
	return d.Transport.Send(p)
}

func (d *deaf) Receive(p []byte) (int, error) {
	if d.now {
		return 0, errDead
	}
	return d.Transport.Receive(p)
}

func TestLostAnswer(t *testing.T) {
	c := open(t, &nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport { return &deaf{Transport: tr} }})
	insert(t, 0, "udp 10.96.0.10:53 10.2.0.1:5353")
	errs := c.Apply(remove("udp 10.96.0.10:53 10.2.0.1:5353", "udp 10.96.0.10:53 10.2.0.2:5353"))
	if !errors.Is(errs[0], kernel.ErrUnknownOutcome) || errs[1] != nil {
		t.Errorf("errors %v", errs)
	}
	remains(t)
}

// refusing answers every request with an errno.
type refusing struct {
	nl.Transport
	errno unix.Errno
	seq   [4]byte
}

func (r *refusing) Send(p []byte) error { copy(r.seq[:], p[8:]); return nil }

func (r *refusing) Receive(p []byte) (int, error) {
	const size = unix.SizeofNlMsghdr + unix.SizeofNlMsgerr
	clear(p[:size])
	binary.NativeEndian.PutUint32(p, size)
	binary.NativeEndian.PutUint16(p[4:], unix.NLMSG_ERROR)
	copy(p[8:], r.seq[:])
	binary.NativeEndian.PutUint32(p[unix.SizeofNlMsghdr:], -uint32(r.errno))
	binary.NativeEndian.PutUint32(p[unix.SizeofNlMsghdr+4:], unix.SizeofNlMsghdr)
	return size, nil
}

func TestKernelWithoutConntrack(t *testing.T) {
	for errno, isMissing := range map[unix.Errno]bool{unix.EINVAL: true, unix.EPERM: false} {
		_, err := Open(&nl.Dialer{Wrap: func(_ int, tr nl.Transport) nl.Transport {
			return &refusing{Transport: tr, errno: errno}
		}})
		var m *kernel.MissingError
		if err == nil || errors.As(err, &m) != isMissing {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
