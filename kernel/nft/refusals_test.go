package nft

import (
	"encoding/binary"
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// wire sends first packets of UDP connections into the test's namespace, as from another host.
type wire struct {
	t      *testing.T
	fd     int
	at     unix.SockaddrLinklayer
	source uint16
}

func newWire(t *testing.T) *wire {
	t.Helper()
	kerneltest.Run(t, "ip", "link", "add", "in", "type", "veth", "peer", "name", "out")
	kerneltest.Run(t, "ip", "link", "set", "in", "up")
	kerneltest.Run(t, "ip", "link", "set", "out", "up")
	out, err := net.InterfaceByName("out")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &wire{t: t, fd: fd, source: 1024, at: unix.SockaddrLinklayer{Protocol: 8, Ifindex: out.Index, Halen: 6,
		Addr: [8]byte{255, 255, 255, 255, 255, 255}}}
}

// send sends n packets from a client, each from another port.
func (w *wire) send(n int, from string, to netip.AddrPort) {
	w.t.Helper()
	for range n {
		w.source++
		p := []byte{0x45, 0, 0, 29, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
		p = append(append(p, netip.MustParseAddr(from).AsSlice()...), to.Addr().AsSlice()...)
		sum := uint32(0)
		for i := 0; i < len(p); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		binary.BigEndian.PutUint16(p[10:], ^uint16(sum+sum>>16))
		for _, n := range []uint16{w.source, to.Port(), 9, 0} {
			p = binary.BigEndian.AppendUint16(p, n)
		}
		if err := unix.Sendto(w.fd, append(p, 'x'), 0, &w.at); err != nil {
			w.t.Fatal(err)
		}
	}
}

// limited is the state of the limits of one service, and where that is.
func limited(c sources.Clients) (kernel.State, netip.AddrPort, string) {
	t := modetest.Big(1, 1)
	s := t.Services.Slice()[0]
	s.Clients, s.Ports[0].Protocol = &c, sources.UDP
	t.Services = sources.ServicesOf(s)
	config := modetest.Defaults()
	f := frontend.List(t, kernel.Node{Name: "n1"}, config.Frontends)
	state := new(mode.Limits).Add(kernel.State{}, f, kernel.DefaultNames)
	for i := range state.Sets {
		if !state.Sets[i].Type.ByPackets() {
			state.Sets[i].MaxElem = 1<<32 - 1
		} else {
			state.Sets[i].MaxElem = 2
		}
	}
	return state, f.Fronts[0].Key.AddrPort(), kernel.HashOf(s.Namespace, s.Name)
}

// What limits refuse counts by its reason, also when rules are written again, and as long as the service has limits.
func TestRefusals(t *testing.T) {
	kerneltest.NewNamespace(t)
	r := NewRefusals(kernel.DefaultNames)
	table, err := OpenLimits(nil, kernel.DefaultNames, r)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	defer r.Close()
	write := func(s kernel.State) {
		t.Helper()
		for _, err := range table.Apply(ops(t, table, s)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(hash string, want kernel.Refusals) {
		t.Helper()
		for range 50 { // packets wait for a processor
			all, err := r.Read(nil)
			if err != nil {
				t.Fatal(err)
			}
			if maps.Equal(all[hash], want) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		all, _ := r.Read(nil)
		t.Errorf("%v, want %v\n%s", all[hash], want, kerneltest.Run(t, "nft", "list", "ruleset"))
	}
	c := sources.Clients{Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, PerClient: true,
		Rate: sources.Rate{N: 1, Per: time.Hour}, Burst: 5}
	state, at, hash := limited(c)
	write(state)
	w := newWire(t)
	want(hash, kernel.Refusals{kernel.Denied: 0, kernel.OverRate: 0, kernel.Unmetered: 0})
	w.send(3, "192.0.2.1", at)
	w.send(7, "198.51.100.1", at)
	w.send(1, "198.51.100.2", at)
	want(hash, kernel.Refusals{kernel.Denied: 3, kernel.OverRate: 2, kernel.Unmetered: 0})
	w.send(9, "198.51.100.3", at)
	want(hash, kernel.Refusals{kernel.Denied: 3, kernel.OverRate: 2, kernel.Unmetered: 9})
	c.Closed, c.AllowLists = true, []string{"office", "home"}
	closed, _, _ := limited(c)
	write(closed)
	want(hash, kernel.Refusals{kernel.Denied: 3, kernel.OverRate: 2, kernel.Unmetered: 9, kernel.MeterFull: 0})
	w.send(4, "198.51.100.3", at)
	want(hash, kernel.Refusals{kernel.Denied: 7, kernel.OverRate: 2, kernel.Unmetered: 9, kernel.MeterFull: 0})
	c.AllowLists = nil
	closed, _, _ = limited(c)
	write(closed)
	w.send(5, "198.51.100.1", at)
	w.send(4, "198.51.100.3", at)
	want(hash, kernel.Refusals{kernel.Denied: 7, kernel.OverRate: 7, kernel.Unmetered: 9, kernel.MeterFull: 4})
	r.ended.refused = nil // as another process
	want(hash, kernel.Refusals{kernel.Denied: 0, kernel.OverRate: 5, kernel.MeterFull: 4})
	write(kernel.State{})
	want(hash, nil)
	if len(r.ended.refused) > 0 {
		t.Errorf("%v is remembered", r.ended.refused)
	}
}
