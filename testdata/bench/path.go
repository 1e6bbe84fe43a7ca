package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// How much goes over a data path in one round, and how many rounds there are. Wall
// time is noisy, and what differs between two ways little: many short rounds tell
// them apart better than few long ones.
const (
	pathConnections = 100
	pathBytes       = 4 << 20
	pathRounds      = 2
	pathWallRounds  = 31
)

// pathServices is the number of other services.
var pathServices = []int{10, 5000}

// A way is a client, a node and a backend, with something between them.
type way struct {
	by       string
	services int
	lab      *lab.Lab
	to       netip.AddrPort // what the client asks
	stop     func()         // what was started, if anything
}

// path sends connections and bytes from a client to a backend over every path in
// turn, and then in the opposite order. So the paths that are compared meet the same
// conditions.
func (b *bench) path(p *pass) error {
	ways, err := p.ways()
	defer func() {
		for _, w := range ways {
			w.close()
		}
		settle()
	}()
	if err != nil {
		return err
	}
	settle()
	rounds := pathRounds
	switch {
	case p.counting:
		rounds = 1
	case b.rounds > 0:
		rounds = b.rounds
	case b.clock == "wall":
		rounds = pathWallRounds
	}
	for range rounds {
		for _, w := range ways {
			if err := p.measureWay(w); err != nil {
				return err
			}
		}
		slices.Reverse(ways)
	}
	if b.clock == "wall" && !p.counting {
		return p.rates(ways, min(rounds, rateRounds))
	}
	return nil
}

// A task is a table, and the service in its middle that the client asks.
type task struct {
	table  sources.Table
	served sources.Service
	vip    netip.AddrPort
	rules  string // svcproxy's, for who makes the same by hand
}

// ways builds them all:
//
//   - directly,
//   - through svcproxy in both layouts of rules, without and with SNAT,
//   - through the same virtual servers made by hand, with and without the rules around them,
//   - through svcproxy with rules of nftables, and in mode nftables,
//   - through svcproxy's mode iptables with both back ends, and mode userspace,
//   - through HAProxy.
//
// Those that were built are given with an error, too.
func (p *pass) ways() ([]way, error) {
	tasks := map[int]*task{}
	for _, n := range pathServices {
		tasks[n] = p.task(n)
	}
	var ways []way
	for _, build := range []func(*lab.Lab, *task) (way, error){
		func(_ *lab.Lab, t *task) (way, error) {
			return way{by: "direct", to: netip.AddrPortFrom(t.served.Endpoints[0].Addr, 8081)}, nil
		},
		func(l *lab.Lab, t *task) (w way, err error) {
			w, err = p.byLayout(l, t, "svcproxy", "")
			if err == nil {
				t.rules, err = l.Node.Run("iptables-save")
			}
			return w, err
		},
		func(l *lab.Lab, t *task) (way, error) { return p.byLayout(l, t, byKubeProxy, kubeProxyLayout) },
		func(l *lab.Lab, t *task) (way, error) { return p.byLayout(l, t, bySNAT, snat) },
		func(l *lab.Lab, t *task) (way, error) { return p.byLayout(l, t, byKubeProxySNAT, kubeProxyLayout+snat) },
		func(l *lab.Lab, t *task) (way, error) {
			return way{by: "ipvsadm, same rules", to: t.vip}, serveByHand(l, t.table, t.rules)
		},
		func(l *lab.Lab, t *task) (way, error) {
			return way{by: "ipvsadm", to: t.vip}, serveByHand(l, t.table, "")
		},
		func(l *lab.Lab, t *task) (way, error) { return p.byLayout(l, t, byNFTRules, withNFTRules) },
		func(l *lab.Lab, t *task) (w way, err error) {
			w = way{by: byNFT, to: t.vip}
			w.stop, err = p.serveBySvcproxy(l, pathText(t.table), nftMode)
			return w, err
		},
		func(l *lab.Lab, t *task) (way, error) { return p.byRules(l, t, "nft") },
		func(l *lab.Lab, t *task) (way, error) { return p.byRules(l, t, "legacy") },
		p.byRelay,
		func(l *lab.Lab, t *task) (w way, err error) {
			w = way{by: "haproxy", to: t.vip}
			w.stop, err = serveByHAProxy(l, t.table)
			return w, err
		},
	} {
		for _, n := range pathServices {
			l, err := newPath()
			if err != nil {
				return ways, err
			}
			w, err := build(l, tasks[n])
			w.lab, w.services = l, n
			ways = append(ways, w)
			if err == nil { // neighbours are found, caches warm
				err = l.Client.Do(func() error { return ask(w.to, 'c', 1) })
			}
			if err != nil {
				return ways, fmt.Errorf("%d services: %s: %w", n, w.by, err)
			}
		}
	}
	return ways, nil
}

// The ways through svcproxy in the other layout of rules, with its own address as each connection's source.
const (
	byKubeProxy     = "kube-proxy's layout"
	bySNAT          = "svcproxy, SNAT"
	byKubeProxySNAT = "kube-proxy's layout, SNAT"

	byNFTRules = "svcproxy, rules of nftables"
	byNFT      = "mode nftables"

	withNFTRules    = "\nrules.backend = \"nftables\"\n"
	nftMode         = "mode = \"nftables\"\niptables.syncPeriod = \"1h\"\n"
	kubeProxyLayout = "rules.layout = \"kube-proxy\"\n"
	snat            = "iptables.masqueradeAll = true\n"
)

// byLayout is a way through svcproxy with more in its configuration.
func (p *pass) byLayout(l *lab.Lab, t *task, by, more string) (w way, err error) {
	w = way{by: by, to: t.vip}
	w.stop, err = p.serveBySvcproxy(l, pathText(t.table), pathConfig+"\n"+more)
	return w, err
}

func (p *pass) task(services int) *task {
	t := &task{table: table(size{services, 1}, kernel.IPv4)}
	t.served = *t.table.Services.At(services / 2)
	t.served.Endpoints[0].Addr = netip.MustParseAddr("10.2.1.10")
	t.vip = netip.AddrPortFrom(t.served.ClusterIPs[0], 80)
	return t
}

// byRules is the way through mode iptables, with a back end.
func (p *pass) byRules(l *lab.Lab, t *task, backend string) (way, error) {
	w := way{by: byRules(backend), to: t.vip}
	err := withBackend(backend, func() (err error) {
		w.stop, err = p.serveBySvcproxy(l, pathText(t.table), "mode = \"iptables\"\niptables.syncPeriod = \"1h\"")
		return err
	})
	return w, err
}

// byRelay is the way through mode userspace.
func (p *pass) byRelay(l *lab.Lab, t *task) (w way, err error) {
	w = way{by: byRelay, to: t.vip}
	w.stop, err = p.serveBySvcproxy(l, pathText(t.table), "mode = \"userspace\"")
	return w, err
}

func (w way) close() {
	if w.stop != nil {
		w.stop()
	}
	w.lab.Close()
}

func (p *pass) measureWay(w way) error {
	return w.lab.Client.Do(func() error {
		row := fmt.Sprintf("one connection, of %d services", w.services)
		err := p.lapBy(row, w.by, func() error {
			for range pathConnections {
				if err := ask(w.to, 'c', 1); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		p.samples[len(p.samples)-1].divide(pathConnections)
		row = fmt.Sprintf("1 MiB, of %d services", w.services)
		if err := p.lapBy(row, w.by, func() error { return ask(w.to, 't', pathBytes) }); err != nil {
			return err
		}
		p.samples[len(p.samples)-1].divide(pathBytes >> 20)
		return nil
	})
}

func (s *sample) divide(n int64) {
	s.Nanos /= n
	s.Syscalls /= n
	s.Messages /= n
	s.Allocs /= uint64(n)
	s.Bytes /= uint64(n)
}

// newPath is a lab whose first backend answers on port 8081 as ask wants it.
func newPath() (*lab.Lab, error) {
	l, err := lab.New()
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		l.Node.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }),
		l.Backends[0].Do(func() error {
			fd, err := listenRaw(8081)
			if err == nil {
				go serveRaw(fd)
			}
			return err
		}),
	)
	return l, err
}

const pathConfig = "ipvs.scheduler = \"wrr\"\nipvs.syncPeriod = \"1h\""

func (p *pass) serveBySvcproxy(l *lab.Lab, services, config string) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "bench-path-")
	if err != nil {
		return nil, err
	}
	proxy, err := lab.NewProxy(l.Node, p.bench.binary, dir, config)
	if err != nil {
		return nil, err
	}
	stop = func() {
		proxy.Kill()
		os.RemoveAll(dir)
	}
	if err := errors.Join(proxy.Serve(services), proxy.Start()); err != nil {
		return stop, err
	}
	_, err = proxy.Wait(0, lab.Synced)
	return stop, err
}

// pathText is text with the port of serveRaw.
func pathText(t sources.Table) string {
	return strings.ReplaceAll(text(t), "targetPort = 8080", "targetPort = 8081")
}

// serveByHand makes the same virtual servers and VIPs with ipvsadm and ip, and
// on request the same iptables rules, sets and sysctls.
func serveByHand(l *lab.Lab, t sources.Table, rules string) error {
	want := wanted(t, kernel.Node{})
	var virtuals, vips, sets strings.Builder
	for _, v := range want.Virtuals {
		fmt.Fprintln(&virtuals, v)
	}
	for _, r := range want.Reals.All() {
		r.Key.Addr = netip.AddrPortFrom(r.Key.Addr.Addr(), 8081)
		fmt.Fprintln(&virtuals, r)
	}
	fmt.Fprintln(&vips, "link add kube-ipvs0 type dummy")
	for _, a := range want.Addrs {
		fmt.Fprintln(&vips, a)
	}
	for _, r := range want.Routes {
		fmt.Fprintln(&vips, r)
	}
	for _, s := range want.Sets {
		fmt.Fprintln(&sets, s)
	}
	for e := range want.Entries.All() {
		fmt.Fprintln(&sets, e)
	}
	feed := func(text string, tool ...string) error { _, err := l.Node.Feed(text, tool[0], tool[1:]...); return err }
	err := errors.Join(feed(virtuals.String(), "ipvsadm", "-R"), feed(vips.String(), "ip", "-batch", "-"))
	if err != nil || rules == "" {
		return err
	}
	for _, s := range want.Sysctls {
		err = errors.Join(err, l.Node.Do(func() error {
			return os.WriteFile("/proc/sys/"+strings.ReplaceAll(s.Name, ".", "/"), []byte(s.Value), 0)
		}))
	}
	return errors.Join(err, feed(sets.String(), "ipset", "restore"), feed(rules, "iptables-restore"))
}
