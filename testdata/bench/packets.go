package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// How many flows a row of packets has, and how many packets each of them sends once it is known.
const (
	packetFlows = 400
	packetLater = 20
	packetBatch = 20
)

// packetSizes are the numbers of services of one endpoint. A way with a rule for each service takes minutes to load
// more than mostLinear.
var packetSizes = []int{100, 1000, 5000, 20000}

const mostLinear = 5000

// A packetWay is what is between the client and the backend.
type packetWay struct {
	by       string
	config   string // svcproxy's; a node with "" only forwards
	linear   bool   // it has a rule for each service
	backend  string // of iptables, "" if any will do
	offloads bool   // a flowtable has the flows that were answered
	clients  string // keys of the service that say who may use it; with another: of another service
	another  bool
	list     int // how many networks the list @bench has
	// serve is used instead of svcproxy, if it is not nil.
	serve func(*pass, *lab.Lab, *task) (stop func(), err error)
}

// The client's own work, and that of the backend, which drops what arrives, is in every row.
var packetWays = []packetWay{
	{by: "forwarding"},
	{by: "svcproxy", config: pathConfig},
	{by: bySNAT, config: pathConfig + "\n" + snat},
	{by: byNFTRules, config: pathConfig + withNFTRules},
	{by: byNFT, config: nftMode},
	{by: byNFT + ", SNAT", config: nftMode + snat},
	{by: byNFT + ", flowtable", config: nftMode + flowtable, offloads: true},
	{by: byNFT + ", SNAT, flowtable", config: nftMode + snat + flowtable, offloads: true},
	{by: byNFT + ", another has limits", config: nftMode, clients: withLimits, another: true},
	{by: byNFT + ", limits", config: nftMode, clients: withLimits},
	{by: byNFT + ", list of one", config: nftMode, clients: withList, list: 1},
	{by: byNFT + ", list of 100,000", config: nftMode, clients: withList, list: sources.MostPrefixes},
	{by: byRules("nft"), config: "mode = \"iptables\"", linear: true, backend: "nft"},
	{by: byRules("legacy"), config: "mode = \"iptables\"", linear: true, backend: "legacy"},
	{by: "kube-proxy, nftables", linear: true, serve: (*pass).serveByKubeProxy},
}

const flowtable = "nftables.flowtable = true\n"

// Nothing is refused by these.
const (
	withLimits = `limits = { newConnections = "1000000/s", connections = 1000000 }` + "\n"
	withList   = `deny = ["@bench"]` + "\n"
)

// balances reports whether there is something between the client and the backend.
func (w packetWay) balances() bool { return w.config != "" || w.serve != nil }

// packetScenarios count what a packet of UDP costs on its way through a node: the first one of a flow, and later ones.
func packetScenarios() (all []scenario) {
	for _, w := range packetWays {
		all = append(all, scenario{name: "packets", by: w.by, outside: true, only: kernel.IPv4, clock: "instructions",
			run: func(_ *bench, p *pass) error { return p.packets(w) }})
	}
	return all
}

func (p *pass) packets(w packetWay) error {
	if p.counting {
		return nil // these rows have nothing but instructions
	}
	for _, n := range packetSizes {
		if (!w.balances() || w.clients != "") && n != packetSizes[0] || w.linear && n > mostLinear {
			continue
		}
		if err := p.packetsBy(w, n); err != nil {
			return fmt.Errorf("%s, %d services: %w", w.by, n, err)
		}
		settle()
	}
	return nil
}

func (p *pass) packetsBy(w packetWay, services int) error {
	l, err := newPath()
	if err != nil {
		return err
	}
	defer l.Close()
	t := p.task(services)
	to := netip.AddrPortFrom(t.served.Endpoints[0].Addr, 8081)
	if w.balances() {
		to = t.vip
		if w.serve == nil {
			w.serve = w.bySvcproxy
		}
		stop, err := w.serve(p, l, t)
		if stop != nil {
			defer stop()
		}
		if err != nil {
			return err
		}
	}
	var end sink
	if err := l.Backends[0].Do(func() (err error) { end, err = newSink(8081); return err }); err != nil {
		return err
	}
	defer end.close()
	settle()
	return p.sendFlows(w, l, services, to, end)
}

// bySvcproxy begins svcproxy with the services of a task over UDP.
func (w packetWay) bySvcproxy(p *pass, l *lab.Lab, t *task) (stop func(), err error) {
	services := strings.ReplaceAll(pathText(t.table), "ports = [{", "ports = [{ protocol = \"UDP\",")
	if w.clients != "" {
		of := "[services." + t.served.Name + "]\n"
		if w.another {
			of = "[services." + t.table.Services.At(0).Name + "]\n"
		}
		services = strings.Replace(services, of, of+w.clients, 1)
	}
	if w.list > 0 {
		lists, err := w.writeList()
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(lists) // it has been read by then
		w.config += fmt.Sprintf("sources.file.lists = %q\n", lists)
	}
	serve := func() (err error) {
		stop, err = p.serveBySvcproxy(l, services, w.config)
		return err
	}
	if w.backend == "" {
		return stop, serve()
	}
	err = withBackend(w.backend, serve)
	return stop, err
}

// writeList makes a folder of lists. The networks of @bench have neither neighbours nor clients.
func (w packetWay) writeList() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "bench-lists-"); err != nil {
		return "", err
	}
	var b strings.Builder
	for i := range w.list {
		fmt.Fprintf(&b, "%d.%d.%d.0/24\n", 20+i>>15, i>>7&255, i<<1&255)
	}
	return dir, os.WriteFile(filepath.Join(dir, "bench"), []byte(b.String()), 0o644)
}

// A sink is a socket of the backend. The kernel drops what comes there, and sends no error, but while flows are
// answered.
type sink int

func newSink(port int) (sink, error) {
	fd, err := socket()
	if err != nil {
		return 0, err
	}
	s := sink(fd)
	if err := errors.Join(s.drop(), unix.Bind(fd, &unix.SockaddrInet4{Port: port})); err != nil {
		return 0, errors.Join(err, s.close())
	}
	return s, nil
}

func (s sink) close() error { return unix.Close(int(s)) }

func (s sink) drop() error {
	all := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	program := &unix.SockFprog{Len: 1, Filter: &all[0]}
	return unix.SetsockoptSockFprog(int(s), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, program)
}

// answer sends a packet on each flow that the backend answers: connections are established then, and a flowtable takes
// them.
func (s sink) answer(flows []int) error {
	if err := unix.SetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != nil {
		return err
	}
	var b [16]byte
	for _, fd := range flows {
		if _, err := unix.Write(fd, b[:]); err != nil {
			return err
		}
		_, from, err := unix.Recvfrom(int(s), b[:], 0)
		if err == nil {
			err = unix.Sendto(int(s), b[:], 0, from)
		}
		if err == nil {
			_, err = unix.Read(fd, b[:])
		}
		if err != nil {
			return fmt.Errorf("a flow is not answered: %w", err)
		}
	}
	return s.drop()
}

// socket returns a socket of UDP that waits for no packet longer than some seconds.
func socket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	}
	return fd, err
}

// sendFlows measures the packets of flows, each from a port of its own. Later packets are of flows that were answered.
func (p *pass) sendFlows(w packetWay, l *lab.Lab, services int, to netip.AddrPort, end sink) error {
	address := &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	flows := make([]int, 1+packetFlows) // the first one is for what only the first of all packets costs
	for i := range flows {
		var fd int
		if err := l.Client.Do(func() (err error) { fd, err = socket(); return err }); err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{}), unix.Connect(fd, address)); err != nil {
			return err
		}
		flows[i] = fd
	}
	if _, err := batches(flows[:1], packetLater); err != nil {
		return err
	}
	measure := func(name string, times int) error {
		each, err := batches(flows[1:], times)
		if err != nil {
			return err
		}
		x := p.sample(fmt.Sprintf("%s, of %d services", name, services), w.by)
		x.Nanos = each.Nanoseconds()
		p.samples = append(p.samples, x)
		return nil
	}
	if err := measure("first packet", 1); err != nil {
		return err
	}
	if err := end.answer(flows); err != nil {
		return err
	}
	if w.offloads {
		tracked, err := l.Node.Run("cat", "/proc/net/nf_conntrack")
		if n := strings.Count(tracked, "[OFFLOAD]"); err != nil || n < len(flows) {
			return fmt.Errorf("the flowtable has %d of %d flows: %w", n, len(flows), err)
		}
	}
	settle()
	return measure("later packet", packetLater)
}

// batches sends a packet on each flow, so many times. It returns what a packet takes: the tenth percentile over
// batches, since ticks and this program's own threads disturb some.
func batches(flows []int, times int) (time.Duration, error) {
	var took []time.Duration
	data := []byte("packet")
	for range times {
		for batch := range slices.Chunk(flows, packetBatch) {
			began := time.Now()
			for _, fd := range batch {
				if err := write(fd, data); err != 0 {
					return 0, err
				}
			}
			took = append(took, time.Since(began)/time.Duration(len(batch)))
		}
	}
	slices.Sort(took)
	return took[len(took)/10], nil
}

// write is a raw system call. Others would keep Go's monitor thread awake, which costs a batch a fifth more.
func write(fd int, data []byte) unix.Errno {
	_, _, err := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
	return err
}
