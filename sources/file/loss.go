package file

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// loss is what a change of a file would take from clients.
type loss struct {
	services int    // how many go, or have no endpoint any more
	parts    int    // how many others lose a VIP, port, endpoint or check, are announced less or admit more clients
	first    string // the name of a service: one that goes, if any does
}

func (l loss) nothing() bool { return l.services+l.parts == 0 }

// String says what is lost, after the name of the file.
func (l loss) String() string {
	switch {
	case l.services > 1:
		return fmt.Sprintf("would end %s and %d more", l.first, l.services-1)
	case l.services == 1:
		return "would end " + l.first
	}
	return "would remove a part of " + l.first
}

// lossOf returns what is lost by a change from one table to another.
func lossOf(before, now sources.Table, d sources.Delta) (l loss) {
	for _, c := range d.Changes {
		if c.Was < 0 {
			continue
		}
		was := before.Services.At(c.Was)
		switch {
		case c.Is < 0 || backed(was) && !backed(now.Services.At(c.Is)):
			if l.services++; l.services == 1 {
				l.first = was.DisplayName()
			}
		case losesPart(was, now.Services.At(c.Is)):
			if l.parts++; l.first == "" {
				l.first = was.DisplayName()
			}
		}
	}
	return l
}

// backed reports whether a service has endpoints, or names that may stand for some.
func backed(s *sources.Service) bool { return len(s.Endpoints)+len(s.Names) > 0 }

// ofVIPs are the kinds of addresses that may be announced.
var ofVIPs = []sources.AddressKind{sources.KindClusterIP, sources.KindExternalIP, sources.KindLoadBalancerIP}

// types are those that are served. Each may be reached in every way of the one before, and in more.
var types = []sources.Type{sources.ClusterIP, sources.NodePort, sources.LoadBalancer}

// losesPart reports whether one service that stays loses a part.
func losesPart(was, is *sources.Service) bool {
	return losesEndpoint(was.Endpoints, is.Endpoints) ||
		loses(was.Names, is.Names, func(a, b *sources.Name) bool {
			return a.Host == b.Host && a.SRV == b.SRV && slices.Equal(a.Ports, b.Ports)
		}) ||
		loses(was.Ports, is.Ports, samePort) ||
		slices.Index(types, was.Type) > slices.Index(types, is.Type) ||
		was.FWMark != 0 && is.FWMark != was.FWMark ||
		was.HealthCheckNodePort != 0 && is.HealthCheckNodePort != was.HealthCheckNodePort ||
		announcesLess(was, is) ||
		loses(was.ClusterIPs, is.ClusterIPs, sameAddr) || loses(was.ExternalIPs, is.ExternalIPs, sameAddr) ||
		loses(was.LoadBalancerIPs, is.LoadBalancerIPs, func(a, b *sources.VIP) bool { return a.Addr == b.Addr }) ||
		len(was.SourceRanges) > 0 && len(is.SourceRanges) == 0 || // all clients are let in
		admitsMore(was.Clients, is.Clients) ||
		was.HealthCheck != nil && is.HealthCheck == nil // dead endpoints get connections
}

// admitsMore reports whether one of the keys for clients went.
func admitsMore(was, is *sources.Clients) bool {
	if was == nil {
		return false
	}
	if is == nil {
		return true
	}
	return len(was.Allowed()) > 0 && len(is.Allowed()) == 0 || len(was.Denied()) > 0 && len(is.Denied()) == 0 ||
		was.Limited() && !is.Limited()
}

// announcesLess reports whether a VIP is announced no more, with BGP or in a pair with keepalived.
func announcesLess(was, is *sources.Service) bool {
	for _, k := range ofVIPs {
		for _, moved := range []bool{false, true} {
			if was.Announces(k, moved) && !is.Announces(k, moved) {
				return true
			}
		}
	}
	return false
}

// samePort reports whether who uses port a is served by port b as well.
func samePort(a, b *sources.Port) bool {
	return a.Port == b.Port && a.Protocol == b.Protocol && (a.NodePort == 0 || a.NodePort == b.NodePort)
}

func sameAddr(a, b *netip.Addr) bool { return *a == *b }

// loses reports whether an element of was is not in now. What both have is mostly in the same order, so the search
// begins after the last find.
func loses[T any](was, now []T, same func(a, b *T) bool) bool {
	next := 0
	for i := range was {
		k := 0
		for k < len(now) && !same(&was[i], &now[(next+k)%len(now)]) {
			k++
		}
		if k == len(now) {
			return true
		}
		next += k + 1
	}
	return false
}

// losesEndpoint is loses for endpoints, which are sorted by address and may be many.
func losesEndpoint(was, now []sources.Endpoint) bool {
	for i := range was {
		e := &was[i]
		for len(now) > 0 && now[0].Addr.Less(e.Addr) {
			now = now[1:]
		}
		k := 0
		for k < len(now) && now[k].Addr == e.Addr && !slices.Equal(now[k].Ports, e.Ports) {
			k++
		}
		if k == len(now) || now[k].Addr != e.Addr {
			return true
		}
	}
	return false
}
