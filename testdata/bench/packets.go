package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// How many flows a row of packets has, and how many packets each of them sends once it is known.
const (
	packetFlows = 400
	packetLater = 20
	packetBatch = 20
)

// packetSizes are the numbers of services of one endpoint. A way with a rule for each service takes minutes to load more
// than mostLinear.
var packetSizes = []int{100, 5000, 20000}

const mostLinear = 5000

// A packetWay is what is between the client and the backend.
type packetWay struct {
	by      string
	config  string // svcproxy's; a node with "" only forwards
	linear  bool   // it has a rule for each service
	backend string // of iptables, "" if any will do
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
	{by: byRules("nft"), config: "mode = \"iptables\"", linear: true, backend: "nft"},
	{by: byRules("legacy"), config: "mode = \"iptables\"", linear: true, backend: "legacy"},
	{by: "kube-proxy, nftables", linear: true, serve: (*pass).serveByKubeProxy},
}

// balances reports whether there is something between the client and the backend.
func (w packetWay) balances() bool { return w.config != "" || w.serve != nil }

// packets counts what a packet of UDP costs on its way through a node: the first one of a flow, and later ones.
func (b *bench) packets(p *pass) error {
	for _, n := range packetSizes {
		for _, w := range packetWays {
			if !w.balances() && n != packetSizes[0] || w.linear && n > mostLinear {
				continue
			}
			if err := p.packetsBy(w, n); err != nil {
				return fmt.Errorf("%s, %d services: %w", w.by, n, err)
			}
			settle()
		}
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
	if err := l.Backends[0].Do(func() error { return discard(8081) }); err != nil {
		return err
	}
	settle()
	return l.Client.Do(func() error { return p.sendFlows(w.by, services, to) })
}

// bySvcproxy begins svcproxy with the services of a task over UDP.
func (w packetWay) bySvcproxy(p *pass, l *lab.Lab, t *task) (stop func(), err error) {
	services := strings.ReplaceAll(pathText(t.table), "ports = [{", "ports = [{ protocol = \"UDP\",")
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

// discard opens a port of the backend at which the kernel drops everything: nobody reads, and no error is sent.
func discard(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	all := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	return errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &all[0]}),
		unix.Bind(fd, &unix.SockaddrInet4{Port: port}))
}

// sendFlows measures the packets of flows, each from a port of its own.
func (p *pass) sendFlows(by string, services int, to netip.AddrPort) error {
	address := &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	flows := make([]int, 1+packetFlows) // the first one is for what only the first of all packets costs
	for i := range flows {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
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
	for _, row := range []struct {
		name  string
		times int
	}{{"first packet", 1}, {"later packet", packetLater}} {
		each, err := batches(flows[1:], row.times)
		if err != nil {
			return err
		}
		x := p.sample(fmt.Sprintf("%s, of %d services", row.name, services), by)
		x.Nanos = each.Nanoseconds()
		p.samples = append(p.samples, x)
	}
	return nil
}

// batches sends a packet on each flow, so many times. It returns what a packet takes: the tenth percentile over batches, since
// ticks and this program's own threads disturb some.
func batches(flows []int, times int) (time.Duration, error) {
	var took []time.Duration
	for range times {
		for batch := range slices.Chunk(flows, packetBatch) {
			began := time.Now()
			for _, fd := range batch {
				if _, err := unix.Write(fd, []byte("packet")); err != nil {
					return 0, err
				}
			}
			took = append(took, time.Since(began)/time.Duration(len(batch)))
		}
	}
	slices.Sort(took)
	return took[len(took)/10], nil
}
