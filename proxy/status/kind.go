package status

import (
	"slices"

	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Kind says what kind of address a virtual server has.
type Kind string

// The kinds of virtual servers.
const (
	KindClusterIP    Kind = "clusterIP"
	KindExternalIP   Kind = "externalIP"
	KindLoadBalancer Kind = "loadBalancerIP"
	KindNodePort     Kind = "nodePort"
	KindMark         Kind = "fwmark"
)

// kinds is the only list of kinds, in the order in which a service's virtual
// servers are sorted.
var kinds = []Kind{KindClusterIP, KindExternalIP, KindLoadBalancer, KindNodePort, KindMark}

// byUse lists the kinds that clients outside the cluster most likely use first.
var byUse = []Kind{KindLoadBalancer, KindExternalIP, KindClusterIP, KindNodePort, KindMark}

// Kinds lists every kind of virtual server.
func Kinds() []Kind { return slices.Clone(kinds) }

func (k Kind) order() int { return slices.Index(kinds, k) }
func (k Kind) use() int   { return slices.Index(byUse, k) }

// kindOf is the kind of a front. An address with several kinds, such as an external
// IP that is a load balancer IP, too, has the first of Kinds.
func kindOf(t frontend.Traits) Kind {
	switch {
	case t.Has(frontend.ClusterIP):
		return KindClusterIP
	case t.Has(frontend.ExternalIP):
		return KindExternalIP
	case t.Has(frontend.LoadBalancer):
		return KindLoadBalancer
	case t.Has(frontend.Marked):
		return KindMark
	}
	return KindNodePort
}
