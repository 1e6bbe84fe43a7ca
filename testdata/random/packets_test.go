package random

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/explain"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// packets is how many fronts of a table get one from each origin.
const packets = 20

// leastPackets is how many a long run compares at least for each table, on average.
const leastPackets = 25

// explainEvery: one of so many packets is also explained, which takes as long as tracing it; of those to
// schedulers that hash, each is.
const explainEvery = 4

// firstPort is below those that the kernel chooses from.
const firstPort = 10000

// clientLink is the device by which the client's packets come in, in some
// configurations that of a workload.
const clientLink = "veth0"

// addrs are one of each family.
type addrs map[kernel.Family]netip.Addr

// The client has an address of a host, and one of a workload of the cluster.
var (
	clientAddrs   = addrs{kernel.IPv4: netip.MustParseAddr("192.0.2.200"), kernel.IPv6: netip.MustParseAddr("2001:db8:c::2")}
	workloadAddrs = addrs{kernel.IPv4: netip.MustParseAddr("10.2.1.200"), kernel.IPv6: netip.MustParseAddr("fd00:2:1::200")}
)

// origins are where packets come from: the node itself, which has no addresses here, and the client.
var origins = []addrs{nil, clientAddrs, workloadAddrs}

// addClient makes the client, which sends everything to the node and has no network of
// the node's to itself. The endpoints are behind a dummy device, so nobody
// answers.
func (n *node) addClient() {
	n.Helper()
	var err error
	if n.client, err = lab.NewNamespace("client"); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { n.client.Close() })
	kerneltest.Run(n, "sh", "-ec", `ip link add `+clientLink+` address 02:00:00:00:00:01 type veth peer name uplink address 02:00:00:00:00:02
echo 1 >/proc/sys/net/ipv6/conf/`+clientLink+`/addr_gen_mode
ip -batch - <<END
link set `+clientLink+` up
`+eachAddr("route add %s dev "+clientLink)+eachAddr("neigh add %s lladdr 02:00:00:00:00:02 dev "+clientLink)+`END`)
	if err = n.client.Adopt("uplink"); err == nil {
		for line := range strings.Lines("link set uplink up\n" + eachAddr("addr add %s dev uplink")) {
			err = errors.Join(err, n.client.IP(strings.TrimSpace(line)))
		}
		err = errors.Join(err, n.client.IP("route add default via 169.254.1.1 dev uplink onlink", "neigh add 169.254.1.1 lladdr 02:00:00:00:00:01 dev uplink",
			"route add default via fe80::1 dev uplink", "neigh add fe80::1 lladdr 02:00:00:00:00:01 dev uplink"))
	}
	if err == nil { // both ends are up, and the kernel has made its own routes
		err = lab.Eventually(time.Minute, func() error {
			if out := kerneltest.Run(n, "ip", "-6", "route", "show", "table", "local", "dev", clientLink); !strings.Contains(out, "ff00::/8") {
				return fmt.Errorf("%s is not up", clientLink)
			}
			return nil
		})
	}
	if err != nil {
		n.Fatal(err)
	}
}

// eachAddr is a line for each address of the client.
func eachAddr(format string) string {
	var b strings.Builder
	for _, as := range origins {
		for _, a := range as {
			fmt.Fprintf(&b, format+"\n", a)
		}
	}
	return b.String()
}

// sentPacket is one that was sent, and what the tracer says of it.
type sentPacket struct {
	packet.Packet
	packet.Verdict
	from    addrs
	port    uint16         // of the sender
	virtual kernel.Virtual // that takes it; zero in mode iptables
	// kept are real servers to which IPVS may also send it, whatever their weight: those of a
	// persistent virtual server.
	kept []netip.AddrPort
	// hashed is the real server that a hash scheduler chooses, as explain computes it; zero if
	// that is not known.
	hashed netip.AddrPort
}

// mayRefuse reports whether the scheduler may find no real server though one is usable.
func (s sentPacket) mayRefuse() bool {
	return s.virtual.Scheduler == "dh" || s.virtual.Scheduler == "ovf"
}

// send has the client and the node send packets to some fronts of a table. The
// connection tracker keeps where each went: what the rules let pass has an entry.
func (n *node) send(d draw, t sources.Table, c mode.Config) {
	n.Helper()
	if n.client == nil || t.Services.Len() >= largeServices {
		return
	}
	f := frontend.List(t, n.have.Node, c.Frontends)
	var sent []sentPacket
	for _, i := range d.Perm(len(f.Fronts)) {
		x := &f.Fronts[i]
		if x.Key.Proto == kernel.SCTP || len(sent) >= packets*len(origins) {
			continue
		}
		for _, from := range origins {
			p := sentPacket{Packet: packet.Packet{Proto: x.Key.Proto, Dst: x.Key.AddrPort()}, from: from}
			if from != nil {
				p.In = clientLink
			}
			n.port++ // each has another port: the connection tracker keeps what was sent before
			p.port = n.port
			sent = append(sent, p)
		}
	}
	n.emit(sent, "")
	if err := n.client.Do(func() error { n.emit(sent, clientLink); return nil }); err != nil {
		n.Fatal(err)
	}
	entries := n.entries() // before they are traced: those of UDP end after 30 s
	state := n.mode.State(f, c)
	for i := range sent {
		n.judge(&sent[i], state, f)
	}
	// A packet may be on its way for a moment.
	if err := lab.Eventually(time.Minute, func() error {
		var errs []error
		for _, s := range sent {
			errs = append(errs, s.agrees(&n.have, entries))
		}
		err := errors.Join(errs...)
		if err != nil {
			maps.Copy(entries, n.entries())
		}
		return err
	}); err != nil {
		n.Error(err)
	}
	n.compared += len(sent)
}

// judge asks the tracer about a packet, and compares with it what explain says of some.
func (n *node) judge(s *sentPacket, state kernel.State, f *frontend.Frontends) {
	n.Helper()
	var err error
	if s.Verdict, err = packet.Trace(state, n.have.Node, s.Packet); err != nil {
		n.Fatalf("%v\n%s", err, strings.Join(s.Steps, "\n"))
	}
	for _, v := range state.Virtuals {
		if v.Key != (kernel.VirtualAt(s.Dst, s.Proto)) {
			continue
		}
		s.virtual = v
		for _, r := range n.have.Reals.All() {
			if v.Flags&kernel.FlagPersistent != 0 && r.Key.Virtual == v.Key {
				s.kept = append(s.kept, r.Key.Addr)
			}
		}
	}
	if s.port%explainEvery != 0 && kernel.SchedulerFlags(s.virtual.Scheduler) == 0 && s.virtual.Scheduler != "dh" {
		return
	}
	a := explain.Explain(explain.Facts{Kernel: n.have, Fronts: f, Order: host.RealOrder}, s.Packet)
	for _, b := range a.Backends {
		if b.Chosen {
			s.hashed = b.Address
			n.chosen++
		}
	}
	if !slices.Contains(fates[s.Fate], a.Fate) {
		n.Errorf("%s: traced as %s, explained as %s:\n%s", s.Packet, s.Fate, a.Fate, a)
	}
}

// fates are what explain says of packets that the tracer says something of. What backends get may be lost on its way
// back, which the tracer does not follow, or to a rule of another program that cannot be judged: one that names a set.
var fates = map[packet.Fate][]explain.Fate{
	packet.Balanced: {explain.Served, explain.Unsure, explain.Partly, explain.Dropped, explain.Refused},
	packet.Refused:  {explain.Refused}, packet.Rejected: {explain.Refused}, packet.Dropped: {explain.Dropped},
	packet.Host: {explain.ToNode}, packet.Forwarded: {explain.Forwarded},
}

// emit sends those packets that come in by a device, from the calling thread's namespace, and
// notes the sources that the kernel chose.
func (n *node) emit(sent []sentPacket, in string) {
	n.Helper()
	for i := range sent {
		s := &sent[i]
		if s.In != in {
			continue
		}
		var err error
		if s.Src, err = emit(&s.Packet, s.from[kernel.FamilyOf(s.Dst.Addr())], s.port); err != nil {
			n.Errorf("%s: %v", s.Packet, err)
		}
	}
}

// emit does not wait for answers, and an error of the sending is no failure here: what
// was not sent has no entry.
func emit(p *packet.Packet, source netip.Addr, port uint16) (netip.AddrPort, error) {
	family, kind := unix.AF_INET6, unix.SOCK_STREAM
	if p.Dst.Addr().Is4() {
		family = unix.AF_INET
	}
	from, to := socketAddr(source, port, family), socketAddr(p.Dst.Addr(), p.Dst.Port(), family)
	if p.Proto == kernel.UDP {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, from); err != nil {
		return netip.AddrPort{}, err
	}
	unix.Connect(fd, to)
	if p.Proto == kernel.UDP {
		unix.Write(fd, []byte("?"))
	}
	if p.In != "" {
		return netip.AddrPortFrom(source, port), nil
	}
	own, err := unix.Getsockname(fd)
	var a netip.Addr
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		a = netip.AddrFrom4(own.Addr)
	case *unix.SockaddrInet6:
		a = netip.AddrFrom16(own.Addr)
	}
	if err != nil || a.IsUnspecified() { // it was refused at once
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(a, port), nil
}

// socketAddr is an address for a socket; that of no address is any.
func socketAddr(a netip.Addr, port uint16, family int) unix.Sockaddr {
	if family == unix.AF_INET {
		to := &unix.SockaddrInet4{Port: int(port)}
		if a.IsValid() {
			to.Addr = a.As4()
		}
		return to
	}
	to := &unix.SockaddrInet6{Port: int(port)}
	if a.IsValid() {
		to.Addr = a.As16()
	}
	return to
}

// reply is the answer that the connection tracker expects to a packet.
type reply struct{ src, dst netip.AddrPort }

// sender tells the packets apart: the sender's port, and where it sent to.
type sender struct {
	port uint16
	to   netip.AddrPort
}

// entries are the connection tracker's.
func (n *node) entries() map[sender]reply {
	n.Helper()
	all := make(map[sender]reply)
	for line := range strings.Lines(kerneltest.Run(n, "sh", "-ec", "(conntrack -L -f ipv4; conntrack -L -f ipv6) 2>/dev/null")) {
		var values [2]map[string]string // of both directions
		count := 0
		for _, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			if key == "src" && count < 2 {
				values[count] = make(map[string]string)
				count++
			}
			if count > 0 && values[count-1][key] == "" {
				values[count-1][key] = value
			}
		}
		end := func(direction int, addr, port string) netip.AddrPort {
			a, _ := netip.ParseAddr(values[direction][addr])
			number, _ := strconv.ParseUint(values[direction][port], 10, 16)
			return netip.AddrPortFrom(a, uint16(number))
		}
		all[sender{end(0, "src", "sport").Port(), end(0, "dst", "dport")}] = reply{end(1, "src", "sport"), end(1, "dst", "dport")}
	}
	return all
}

// agrees compares the entry of a packet with the tracer's verdict.
func (s sentPacket) agrees(have *kernel.Observed, entries map[sender]reply) error {
	reply, found := entries[sender{s.port, s.Dst}]
	// The node's own packets have an entry before they are refused on their way in.
	own := s.In == ""
	ok := s.Fate != packet.Balanced && (!found || own && reply.src == s.Dst)
	ok = ok || found && slices.Contains(s.kept, reply.src) || !found && s.mayRefuse()
	for _, w := range s.Ways {
		arrives := w.Fate == packet.Balanced
		switch {
		case found:
			ok = ok || reply.src == w.Real && (own || arrives && (reply.dst == s.Src) == (w.Masquerade == packet.Kept))
		case s.Fate == packet.Balanced:
			// A port of the node that nobody listens on resets TCP, which ends the entry.
			ok = ok || !arrives || s.Proto == kernel.TCP && isLocal(have, w.Real.Addr())
		}
	}
	if found && s.hashed.IsValid() && reply.src != s.hashed && reply.src != s.Dst {
		return fmt.Errorf("%s: scheduler %s sent it to %s, explained as %s", s.Packet, s.virtual.Scheduler, reply.src, s.hashed)
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%s: traced as %q by scheduler %q with %d kept; it has an entry: %t, a reply from %s to %s\n%s",
		s.Packet, s.Verdict, s.virtual.Scheduler, len(s.kept), found, reply.src, reply.dst, strings.Join(s.Steps, "\n"))
}

// isLocal reports whether an address is the node's, as one of a link or as a VIP.
func isLocal(have *kernel.Observed, a netip.Addr) bool {
	return have.Node.Has(a) || slices.Contains(have.Routes, kernel.Route{Addr: a}) ||
		slices.ContainsFunc(have.Addrs, func(x kernel.Addr) bool { return x.Addr == a })
}
