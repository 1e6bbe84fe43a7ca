package frontend

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// Config is the part of the configuration that frontends depend on.
type Config struct {
	// IPv6: the host supports IPv6. Without it no IPv6 address is served.
	IPv6 bool

	// Scheduler is for services that name none; "" means wrr for those of files, else rr.
	Scheduler string

	// Forward is for services that name no method; "" means masquerade.
	Forward sources.Forward

	// NodePortAddresses are the networks in which node ports are served. A
	// family without any has them on all of the node's addresses, as in kube-proxy.
	NodePortAddresses []netip.Prefix
	// NodePortPrimary serves node ports on the node's primary addresses only.
	NodePortPrimary bool

	// BindAddress is the node's primary address of its family, if it is valid
	// and specified.
	BindAddress netip.Addr
	// NodeAddresses are the node's addresses, most important first. The first of
	// a family is the primary one, unless BindAddress is.
	NodeAddresses []netip.Addr
	// LocalCIDRs: an endpoint without a node name is local if it is inside one.
	LocalCIDRs []netip.Prefix
	// Object supplies what neither the configuration nor the machine says.
	Object NodeObject

	LocalFallback LocalFallback

	// Announce: routing daemons are told of external and load balancer IPs, and of what
	// services ask for.
	Announce bool
	// Moved: keepalived moves VIPs, so each VIP of a file counts unless its service says otherwise.
	Moved bool
}

// Equal reports whether two configurations are equal.
func (c *Config) Equal(o *Config) bool {
	return c.IPv6 == o.IPv6 && c.Announce == o.Announce && c.Moved == o.Moved && c.Scheduler == o.Scheduler &&
		c.Forward == o.Forward && c.NodePortPrimary == o.NodePortPrimary &&
		c.BindAddress == o.BindAddress && c.LocalFallback == o.LocalFallback && c.Object.Zone == o.Object.Zone &&
		slices.Equal(c.NodePortAddresses, o.NodePortAddresses) && slices.Equal(c.NodeAddresses, o.NodeAddresses) &&
		slices.Equal(c.LocalCIDRs, o.LocalCIDRs) &&
		slices.Equal(c.Object.Addresses, o.Object.Addresses) && slices.Equal(c.Object.PodCIDRs, o.Object.PodCIDRs)
}

// NodeObject is what a Kubernetes Node object says about this node. The zero
// value says nothing.
type NodeObject struct {
	Zone      string
	Addresses []netip.Addr   // in the object's order; the first of a family is the primary one
	PodCIDRs  []netip.Prefix // at most one per family
}

// LocalFallback says where external traffic goes under policy Local if no
// endpoint is local. Traffic to cluster IPs is dropped in that case.
type LocalFallback string

// The fallbacks. The zero value means FallbackDrop; FallbackCluster uses all
// endpoints, as kube-proxy's IPVS mode does.
const (
	FallbackDrop    LocalFallback = "drop"
	FallbackCluster LocalFallback = "cluster"
)
