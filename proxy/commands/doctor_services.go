package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/doctor"
	"github.com/svcproxy/svcproxy/proxy/explain"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Limits of what doctor asks the kernel one by one.
const (
	maxHops      = 5000 // addresses of backends whose route is asked for
	maxExplained = 200  // addresses and ports that packets are followed to
	claimsAtOnce = 100  // VIPs that other hosts are asked for at once

	maxConnected = 200 // endpoints that are connected to, at once, for at most
	connectLimit = 2 * time.Second
)

// examine reads what depends on the services.
func (x *examination) examine(ctx context.Context, table sources.Table) {
	node := kernel.Node{}
	if x.f.Kernel != nil {
		node = x.f.Kernel.Node
	} else if n, err := host.ReadNode(x.setup.Config.Names()); err == nil {
		node = n
	}
	x.f.Fronts = x.setup.Fronts(table, node)
	paths, err := host.OpenPaths()
	if err != nil {
		x.lacks("routes to backends", err, "run as root")
		return
	}
	defer paths.Close()
	x.backends(paths)
	if x.probe {
		x.connect(ctx)
	}
	if x.f.Kernel == nil {
		return
	}
	want := x.setup.Want(table, node)
	want.Sort()
	x.f.Want = &want
	x.foreign()
	if x.probe {
		x.duplicates(ctx)
	}
	if x.f.Mode != mode.Userspace && !x.setup.Config.IPVS.StrictARP {
		x.follow(ctx, paths)
	}
}

// backends asks for the way to each address that gets connections.
func (x *examination) backends(paths *host.Paths) {
	seen := map[netip.Addr]bool{}
	for i := range x.f.Fronts.Fronts {
		front := &x.f.Fronts.Fronts[i]
		for _, b := range x.f.Fronts.Backends(front) {
			a := x.f.Fronts.Addr(int(front.Service), b).Addr()
			if seen[a] || x.f.Fronts.Weight(int(front.Service), b) == 0 || len(seen) == maxHops {
				continue
			}
			seen[a] = true
			if hop, err := paths.Hop(kernel.Path{Dst: a}); err == nil {
				x.f.Backends = append(x.f.Backends, doctor.Backend{
					Addr: a, Forward: x.f.Fronts.Forward(front), Hop: hop, Service: x.f.Fronts.Service(front).DisplayName(),
				})
			}
		}
	}
}

// connect connects to endpoints of TCP that get connections without a health check.
func (x *examination) connect(ctx context.Context) {
	var closed []string
	more := false
	var mu sync.Mutex
	var trying sync.WaitGroup
	seen := map[netip.AddrPort]bool{}
	for i := range x.f.Fronts.Fronts {
		front := &x.f.Fronts.Fronts[i]
		s := x.f.Fronts.Service(front)
		for _, b := range x.f.Fronts.Backends(front) {
			a := x.f.Fronts.Addr(int(front.Service), b)
			if s.HealthCheck != nil || front.Key.Proto != kernel.TCP || x.f.Fronts.Forward(front) != sources.Masquerade ||
				x.f.Fronts.Weight(int(front.Service), b) == 0 || seen[a] {
				continue
			}
			if len(seen) == maxConnected {
				more = true
				continue
			}
			seen[a] = true
			trying.Go(func() {
				conn, err := (&net.Dialer{Timeout: connectLimit}).DialContext(ctx, "tcp", a.String())
				if err == nil {
					conn.Close()
					return
				}
				why := "no answer"
				var errno syscall.Errno
				switch {
				case errors.Is(err, syscall.ECONNREFUSED):
					why = "refused"
				case errors.As(err, &errno): // EPERM is this node's own firewall
					why = errno.Error()
				}
				mu.Lock()
				defer mu.Unlock()
				closed = append(closed, fmt.Sprintf("%s of %s (%s)", a, s.DisplayName(), why))
			})
		}
	}
	trying.Wait()
	if more {
		x.lacks("endpoints without a health check", fmt.Errorf("connected to %d of them, not to all", maxConnected), "")
	}
	slices.Sort(closed)
	x.f.Closed = closed
}

// foreign lists virtual servers that svcproxy neither made nor wants.
func (x *examination) foreign() {
	if x.f.Mode == mode.Userspace {
		return
	}
	owned := plan.Owned(x.f.Kernel, nil)
	for i := range x.f.Kernel.Virtuals {
		k := x.f.Kernel.Virtuals[i].Key
		_, ours := slices.BinarySearchFunc(owned, k, kernel.VirtualKey.Compare)
		_, wanted := kernel.FindVirtual(x.f.Want.Virtuals, k)
		excluded := slices.ContainsFunc(x.setup.Config.IPVS.ExcludeCIDRs, func(p netip.Prefix) bool {
			return p.Contains(k.Addr)
		})
		if !ours && !wanted && !excluded {
			x.f.Foreign = append(x.f.Foreign, k)
		}
	}
}

// duplicates asks the hosts on the node's links for the VIPs.
func (x *examination) duplicates(ctx context.Context) {
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		claims := slices.DeleteFunc(slices.Clone(x.f.Want.Policy.Claims), func(c kernel.Claim) bool {
			return kernel.FamilyOf(c.Addr) != family || x.f.Kernel.Node.Has(c.Addr)
		})
		for some := range slices.Chunk(claims, claimsAtOnce) {
			taken, err := host.Prober{}.Probe(ctx, some)
			if err != nil {
				x.lacks("whether another host has a VIP", err, "it needs CAP_NET_RAW")
				return
			}
			x.f.Taken = append(x.f.Taken, taken...)
		}
	}
}

// follow follows a packet from outside to addresses that should be served. What a firewall opens to some clients
// only is not lost.
func (x *examination) follow(ctx context.Context, paths *host.Paths) {
	f := explain.Facts{Kernel: *x.f.Kernel, Fronts: x.f.Fronts, Network: paths, AnySource: true}
	fronts := slices.DeleteFunc(slices.Clone(x.f.Fronts.Fronts), func(front frontend.Front) bool {
		return !x.open(&front)
	})
	step := max(1, (len(fronts)+maxExplained-1)/maxExplained)
	for i := 0; i < len(fronts); i += step {
		p, err := f.Packet(fronts[i].Key.Proto, fronts[i].Key.AddrPort(), "", "")
		if err != nil {
			continue
		}
		if a := explain.Explain(f, p); a.Fate != explain.Served && a.Fate != explain.Unsure &&
			a.Fate != explain.Unknown {
			x.f.Lost = append(x.f.Lost, doctor.Lost{Target: fronts[i].Key.Proto.String() + " " +
				fronts[i].Key.AddrPort().String(), Why: a.Sentence})
		}
	}
}

// open reports whether every client may use a front, and a backend should serve. To which addresses a firewall mark is
// given, only the rules of others know.
func (x *examination) open(front *frontend.Front) bool {
	return front.Traits&(frontend.Restricted|frontend.Marked) == 0 && x.f.Fronts.Counts(front).Serving > 0
}

// beingRead is how long a file may take from being written to being served: svcproxy waits until it
// is quiet, for half a minute at most.
const beingRead = time.Minute

// unserved compares the service files with what svcproxy read of them.
func (x *examination) unserved(ctx context.Context) {
	if x.f.Status == nil {
		return
	}
	if time.Since(x.edited()) < beingRead {
		return
	}
	served, err := x.client.Table(ctx, sources.Files)
	if err != nil || served.Version != x.Version || !served.Delivered {
		return
	}
	table, _, problems, err := file.Load(ctx, x.setup.Files())
	if err != nil || len(problems) > 0 {
		return // the status has them
	}
	text, err := json.Marshal(table.Services.Slice()) // as the daemon's went through JSON
	var files []sources.Service
	if err != nil || json.Unmarshal(text, &files) != nil {
		return
	}
	for i := range served.Services {
		served.Services[i] = served.Services[i].Unresolved()
	}
	for _, c := range sources.Compare(sources.Table{Services: sources.ServicesOf(served.Services...)},
		sources.Table{Services: sources.ServicesOf(files...)}).Changes {
		x.f.Unserved = append(x.f.Unserved, c.DisplayName())
	}
}
