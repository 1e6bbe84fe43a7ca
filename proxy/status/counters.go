package status

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// Counter reads the counters of the kernel. It is host.Counters.
type Counter interface {
	Read(context.Context) (kernel.Counters, error)
}

// RealCounter is a Counter that also reads the traffic of real servers, with one
// request to the kernel for each virtual server.
type RealCounter interface {
	Reals(context.Context, []kernel.VirtualKey) ([]kernel.RealTraffic, error)
}

// VirtualCounter is a Counter that also reads the traffic of all virtual servers alone, sorted.
type VirtualCounter interface {
	Virtuals(context.Context) ([]kernel.VirtualCounters, error)
}

// trafficOf is the traffic of a virtual server.
func trafficOf(c kernel.Counters, k kernel.VirtualKey) Traffic {
	i, found := slices.BinarySearchFunc(c.Virtuals, k, func(v kernel.VirtualCounters, k kernel.VirtualKey) int {
		return v.Key.Compare(k)
	})
	if !found {
		return Traffic{}
	}
	return traffic(c.Virtuals[i].Traffic)
}

func traffic(t kernel.Traffic) Traffic {
	return Traffic{t.Conns, Count(t.InPackets), Count(t.OutPackets), Count(t.InBytes), Count(t.OutBytes)}
}

// byRules returns the counters where rules balance, which have no virtual servers: those of each address are the sums
// over its endpoints.
func byRules(c kernel.Counters) kernel.Counters {
	c.Virtuals = nil
	for _, r := range c.Chosen {
		if n := len(c.Virtuals); n == 0 || c.Virtuals[n-1].Key != r.Key.Virtual {
			c.Virtuals = append(c.Virtuals, kernel.VirtualCounters{Key: r.Key.Virtual})
		}
		c.Virtuals[len(c.Virtuals)-1].Conns += r.Conns
	}
	return c
}

// refusedOf is what a service refused to its clients.
func refusedOf(s *sources.Service, c kernel.Counters) kernel.Refusals {
	if s.Clients == nil || c.Refused == nil {
		return nil
	}
	refused := maps.Clone(c.Refused[kernel.HashOf(s.Namespace, s.Name)])
	delete(refused, kernel.Unmetered)
	return refused
}

// refusals is that in words.
func refusals(refused kernel.Refusals) string {
	var words []string
	for _, why := range kernel.Reasons() {
		if n, counted := refused[why]; counted {
			words = append(words, screen.Count(n)+" "+why.String())
		}
	}
	return strings.Join(words, ", ")
}

// flowsOf is the size of the conntrack table; nil if conntrack is not loaded.
func flowsOf(c kernel.Counters) *Conntrack {
	if cmp.Or(c.Flows, c.MaxFlows) == 0 {
		return nil
	}
	return &Conntrack{Count: c.Flows, Max: c.MaxFlows}
}
