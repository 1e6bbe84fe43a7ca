package random

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/trace"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// packets is how many fronts of a table get one from each host.
const packets = 8

// firstPort is below those that the kernel chooses from.
const firstPort = 10000

// clientLink is the device by which the client's packets come in, in some
// configurations that of a workload.
const clientLink = "veth0"

var clientAddrs = map[kernel.Family]netip.Addr{
	kernel.IPv4: netip.MustParseAddr("192.0.2.200"),
	kernel.IPv6: netip.MustParseAddr("2001:db8:c::2"),
}

// addClient makes the client, which sends everything to the node and has no address of
// the node's networks to itself. The endpoints are behind a dummy device, so nobody
// answers.
func (n *node) addClient() {
	n.Helper()
	var err error
	if n.client, err = lab.NewNamespace("client"); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { n.client.Close() })
	kerneltest.Run(n, "sh", "-ec", `ip link add `+clientLink+` address 02:00:00:00:00:01 type veth peer name uplink
echo 1 >/proc/sys/net/ipv6/conf/`+clientLink+`/addr_gen_mode
ip -batch - <<END
link set `+clientLink+` up
route add `+clientAddrs[kernel.IPv4].String()+` dev `+clientLink+`
route add `+clientAddrs[kernel.IPv6].String()+` dev `+clientLink+`
END`)
	if err = n.client.Adopt("uplink"); err == nil {
		err = n.client.IP("link set uplink up",
			"addr add "+clientAddrs[kernel.IPv4].String()+"/32 dev uplink", "addr add "+clientAddrs[kernel.IPv6].String()+"/128 dev uplink nodad",
			"route add default via 169.254.1.1 dev uplink onlink", "neigh add 169.254.1.1 lladdr 02:00:00:00:00:01 dev uplink",
			"route add default via fe80::1 dev uplink", "neigh add fe80::1 lladdr 02:00:00:00:00:01 dev uplink")
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

// sentPacket is one that was sent, and what the tracer says of it.
type sentPacket struct {
	trace.Packet
	trace.Verdict
	port uint16 // of the sender
}

// send has the client and the node send packets to some fronts of a table. The
// connection tracker keeps where each went: what the rules let pass has an entry.
func (n *node) send(d draw, t sources.Table, c mode.Config) {
	n.Helper()
	if n.client == nil || len(t.Services) >= largeServices {
		return
	}
	f := frontend.List(t, n.have.Node, c.Frontends)
	state := n.mode.State(f, c)
	var sent []sentPacket
	for _, i := range d.Perm(len(f.Fronts)) {
		x := &f.Fronts[i]
		if x.Key.Proto == kernel.SCTP {
			continue
		}
		for _, in := range []string{"", clientLink} {
			p := trace.Packet{Proto: x.Key.Proto, Dst: x.Key.Addr, In: in}
			n.emit(&p)
			port := n.port
			v, err := trace.Trace(state, n.have.Node, p)
			if err != nil {
				n.Fatalf("%v\n%s", err, strings.Join(v.Steps, "\n"))
			}
			sent = append(sent, sentPacket{p, v, port})
		}
		if len(sent) == 2*packets {
			break
		}
	}
	// A packet may be on its way for a moment.
	if err := lab.Eventually(time.Minute, func() error {
		entries := n.entries()
		var errs []error
		for _, s := range sent {
			errs = append(errs, s.agrees(n.have.Node, entries))
		}
		return errors.Join(errs...)
	}); err != nil {
		n.Error(err)
	}
}

// emit sends the first packet of a connection, and notes the source that the kernel chose.
func (n *node) emit(p *trace.Packet) {
	n.Helper()
	n.port++ // each has another port: the connection tracker keeps what was sent before
	send := func() (err error) { p.Src, err = emit(p, n.port); return err }
	var err error
	if p.In == "" {
		err = send()
	} else {
		err = n.client.Do(send)
	}
	if err != nil {
		n.Fatalf("%s: %v", p, err)
	}
}

// emit does not wait for answers, and an error of the sending is no failure here: what
// was not sent has no entry.
func emit(p *trace.Packet, port uint16) (netip.AddrPort, error) {
	family, kind := unix.AF_INET6, unix.SOCK_STREAM
	var from, to unix.Sockaddr = &unix.SockaddrInet6{Port: int(port)}, &unix.SockaddrInet6{Port: int(p.Dst.Port()), Addr: p.Dst.Addr().As16()}
	if p.Dst.Addr().Is4() {
		family, from, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(port)}, &unix.SockaddrInet4{Port: int(p.Dst.Port()), Addr: p.Dst.Addr().As4()}
	}
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
		return netip.AddrPortFrom(clientAddrs[kernel.FamilyOf(p.Dst.Addr())], port), nil
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
func (s sentPacket) agrees(n kernel.Node, entries map[sender]reply) error {
	reply, found := entries[sender{s.port, s.Dst}]
	// The node's own packets have an entry before they are refused on their way in.
	own := s.In == ""
	ok := s.Fate != trace.Balanced && (!found || own && reply.src == s.Dst)
	for _, w := range s.Ways {
		arrives := w.Fate == trace.Balanced
		switch {
		case found:
			ok = ok || reply.src == w.Real && (own || arrives && (reply.dst == s.Src) == (w.Masquerade == trace.Kept))
		case s.Fate == trace.Balanced:
			// A port of the node that nobody listens on resets TCP, which ends the entry.
			ok = ok || !arrives || s.Proto == kernel.TCP && n.Has(w.Real.Addr())
		}
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%s: traced as %q; it has an entry: %t, a reply from %s to %s\n%s",
		s.Packet, s.Verdict, found, reply.src, reply.dst, strings.Join(s.Steps, "\n"))
}
