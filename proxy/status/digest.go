package status

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// virtualDigests returns the digest of each wanted virtual server.
func virtualDigests(want *kernel.State) map[kernel.VirtualKey]kernel.Digest {
	of := make(map[kernel.VirtualKey]kernel.Digest, len(want.Virtuals))
	reals := want.Reals.Cursor()
	for i := range want.Virtuals {
		v := &want.Virtuals[i]
		of[v.Key] = kernel.DigestOf(v, reals.Next(v.Key))
	}
	return of
}

// digests sets the digests of services. Node ports are left out: their addresses are the node's own. Without
// virtual servers, as in mode iptables, there are none.
func (b *builder) digests() {
	for i := range b.services {
		s := &b.services[i]
		var all []kernel.Digest
		for j := range s.Virtuals {
			if v := &s.Virtuals[j]; v.Digest != "" && v.Kind != KindNodePort {
				all = append(all, v.digest)
			}
		}
		if all != nil {
			s.digest = kernel.DigestOfAll(all)
			s.Digest = s.digest.String()
		}
	}
}

// digestOf returns the digest of all services, "" if none has one. They are in the order of their full names:
// nodes that have them from different sources have equal digests.
func digestOf(services []Service) string {
	if slices.ContainsFunc(services, func(s Service) bool { return strings.Contains(s.Name, "/") }) {
		services = slices.Clone(services)
		kernel.SortStableFunc(services, func(a, b Service) int {
			return strings.Compare(sources.FullName(a.Name), sources.FullName(b.Name))
		})
	}
	var all []kernel.Digest
	for i := range services {
		if services[i].Digest != "" {
			all = append(all, services[i].digest)
		}
	}
	if all == nil {
		return ""
	}
	return kernel.DigestOfAll(all).String()
}

// DigestNumber returns the digest as a number, and whether the service has one.
func (s *Service) DigestNumber() (float64, bool) { return float64(s.digest), s.Digest != "" }

// digestPage writes a row for each virtual server, and the digests of services and of all.
func (p *page) digestPage() {
	c := &screen.Columns{Elastic: []int{0}}
	c.Heading("SERVICE", "ADDRESS", "SCHEDULER", ">BACKENDS", "DIGEST", "SERVICE'S DIGEST")
	for i := range p.st.Services {
		s := &p.st.Services[i]
		for j := range s.Virtuals {
			v := &s.Virtuals[j]
			c.Row(text(s.Name), text(v.full()), text(v.way()), number(screen.Count(uint64(v.Backends))), text(dash(v.Digest)),
				text(dash(s.Digest)))
		}
	}
	if p.Service == "" {
		p.line(screen.Plain, "digest of all services: %s", dash(p.st.Digest))
	}
	p.columns(c)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
