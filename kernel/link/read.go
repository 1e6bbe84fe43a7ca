package link

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// skipStatistics is RTEXT_FILTER_SKIP_STATS. Half of a link message is counters.
const skipStatistics = 1 << 3

// Read returns our device, if it exists, also under another name; its addresses, sorted as in
// kernel.State; and the facts about the node from its other devices and routes. The node's name and
// zone are not among these. If a device with our name is not a dummy, the error is a *ForeignError.
//
// The addresses of all devices come in one dump, because two dumps could differ. IPv6 link-local
// addresses of our device belong to the kernel and are left out. To find the default routes, each
// reading walks the whole main table, which may be a full Internet table.
func (l *Links) Read(names kernel.Names) ([]kernel.Link, []kernel.Addr, kernel.Node, error) {
	s, err := l.survey()
	if err != nil {
		return nil, nil, kernel.Node{}, err
	}
	l.names = make(map[int]string, len(s.devices))
	for _, d := range s.devices {
		l.names[d.index] = d.name
	}
	if l.device, err = l.find(s, names.Device); err != nil {
		return nil, nil, kernel.Node{}, err
	}
	var links []kernel.Link
	if l.device.index != 0 {
		l.last = l.device.index
		links = append(links, kernel.Link{Name: l.device.name, Type: l.device.kind})
	}
	n := s.node(l.device.index)
	n.BrNetfilter = brNetfilter()
	filterBridges(n.Bridges, n.BrNetfilter)
	if n.Release, err = release(); err != nil {
		return nil, nil, kernel.Node{}, err
	}
	return links, l.bound(s.addrs, names.Device), n, nil
}

// Made reports whether the device at the last Read has the alias that a device of ours gets.
func (l *Links) Made(names kernel.Names) bool { return l.device.alias == alias(names.Device) }

// find finds our device by its name. If another program renamed it, find uses its index, which the
// kernel gives to no other device, or else its alias or the addresses bound to it.
func (l *Links) find(s survey, name string) (device, error) {
	var renamed device
	for _, d := range s.devices {
		switch {
		case d.name == name && d.kind != l.kind:
			return device{}, &ForeignError{Device: d.name, Kind: d.kind, want: l.kind}
		case d.name == name:
			return d, nil
		case d.kind == l.kind && (d.index == l.last || l.last == 0 && (d.alias == alias(name) || l.guards(s, d))):
			renamed = d
		}
	}
	return renamed, nil
}

// guards reports whether all addresses of a device are VIPs of ours, and there is at least one.
func (l *Links) guards(s survey, d device) bool {
	vips := 0
	for _, x := range s.addrs {
		a := x.prefix.Addr()
		if x.index != d.index || a.Is6() && x.scope == unix.RT_SCOPE_LINK {
			continue
		}
		if l.Guarded == nil || !l.Guarded(a) {
			return false
		}
		vips++
	}
	return vips > 0
}

// bound returns the addresses of our device, under the name that it should have.
func (l *Links) bound(all []address, name string) []kernel.Addr {
	l.odd = nil
	if l.device.index == 0 {
		return nil
	}
	var addrs []kernel.Addr
	for _, x := range all {
		a := x.prefix.Addr()
		if x.index != l.device.index || a.Is6() && x.scope == unix.RT_SCOPE_LINK {
			continue
		}
		if !x.prefix.IsSingleIP() {
			if l.odd == nil {
				l.odd = make(map[addrKey]uint8)
			}
			l.odd[addrKey{a, x.index}] = uint8(x.prefix.Bits())
		}
		addrs = append(addrs, kernel.Addr{Addr: a, Link: name})
	}
	kernel.SortFunc(addrs, func(a, b kernel.Addr) int { return a.Addr.Compare(b.Addr) })
	return slices.Compact(addrs)
}

// survey is everything read from the kernel, in the kernel's order.
type survey struct {
	devices []device
	addrs   []address
	routes  []route // default routes of the main table
}

func (l *Links) survey() (s survey, err error) {
	err = l.dump("links", func(b *nl.Batch) {
		b.Begin(unix.RTM_GETLINK, 0)
		b.Raw(ifInfo(0))
		b.U32(unix.IFLA_EXT_MASK, skipStatistics)
	}, func() { s.devices = s.devices[:0] }, func(p []byte) error {
		d, err := decodeLink(p)
		s.devices = append(s.devices, d)
		return err
	})
	if err != nil {
		return survey{}, err
	}
	err = l.dump("addresses", func(b *nl.Batch) {
		b.Begin(unix.RTM_GETADDR, 0)
		b.Raw(ifAddr(unix.AF_UNSPEC, 0, 0, 0))
	}, func() { s.addrs = s.addrs[:0] }, func(p []byte) error {
		x, ok, err := decodeAddr(p)
		if ok {
			s.addrs = append(s.addrs, x)
		}
		return err
	})
	if err != nil {
		return survey{}, err
	}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		start := len(s.routes)
		err := l.dump(f.String()+" routes", func(b *nl.Batch) {
			b.Begin(unix.RTM_GETROUTE, 0)
			b.Raw([]byte{uint8(f), 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, unix.RTN_UNICAST, 0, 0, 0, 0})
		}, func() { s.routes = s.routes[:start] }, func(p []byte) error {
			r, ok, err := decodeRoute(p)
			// A kernel without IPv6 lists the routes of IPv4 instead.
			if ok && r.family == f {
				s.routes = append(s.routes, r)
			}
			return err
		})
		// A new namespace has no main table before its first route.
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return survey{}, err
		}
	}
	return s, nil
}

func (l *Links) dump(what string, put func(*nl.Batch), restart func(), each func([]byte) error) error {
	l.batch.Reset()
	put(&l.batch)
	l.batch.End()
	if err := l.conn.Dump(&l.batch, restart, each); err != nil {
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return nil
}

// brNetfilter reports whether bridged packets pass iptables. The module makes the directory.
func brNetfilter() bool {
	_, err := os.Stat("/proc/sys/net/bridge")
	return err == nil
}

// filterBridges applies the module and its sysctls to the options of bridges. Without the module no
// bridged packet passes iptables. The sysctls are for all bridges.
func filterBridges(bridges []kernel.Bridge, module bool) {
	if len(bridges) == 0 {
		return
	}
	all4, all6 := callsAll("bridge-nf-call-iptables"), callsAll("bridge-nf-call-ip6tables")
	for i := range bridges {
		b := &bridges[i]
		b.Filtered4, b.Filtered6 = module && (b.Filtered4 || all4), module && (b.Filtered6 || all6)
	}
}

func callsAll(name string) bool {
	value, err := os.ReadFile("/proc/sys/net/bridge/" + name)
	return err == nil && strings.TrimSpace(string(value)) != "0"
}

// release returns the release of the running kernel.
func release() (kernel.Release, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return kernel.Release{}, fmt.Errorf("uname: %w", err)
	}
	return parseRelease(unix.ByteSliceToString(u.Release[:]))
}

func parseRelease(s string) (r kernel.Release, err error) {
	if _, err := fmt.Sscanf(s, "%d.%d", &r.Major, &r.Minor); err != nil {
		return kernel.Release{}, fmt.Errorf("kernel release %q: want MAJOR.MINOR", s)
	}
	return r, nil
}
