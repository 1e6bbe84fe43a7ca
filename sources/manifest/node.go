package manifest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Node is what is used of a Node object. The zero value is a node without an object.
type Node struct {
	Name string
	Zone string
	// Addresses are the InternalIPs and ExternalIPs, in the object's order.
	Addresses []netip.Addr
	// PodCIDRs have the addresses of the node's pods: at most one CIDR of a family.
	PodCIDRs []netip.Prefix
	// Leaving is why load balancers should send no new connections to the node; "" = they may.
	Leaving string
}

// Eligible reports whether load balancers may send new connections to the node.
func (n Node) Eligible() bool { return n.Leaving == "" }

// Equal reports whether two Nodes are the same.
func (n Node) Equal(o Node) bool {
	return n.Name == o.Name && n.Zone == o.Zone && n.Leaving == o.Leaving &&
		slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.PodCIDRs, o.PodCIDRs)
}

// Gone is a node whose object was deleted. It serves as before, but load balancers should leave it.
func (n Node) Gone() Node {
	n.Leaving = "its Node object was deleted"
	return n
}

// autoscalerTaint is the taint of a node that the cluster autoscaler is about to remove.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// NodeObject is what is used of a v1 Node.
type NodeObject struct {
	Metadata Metadata `yaml:"metadata"`
	Spec     struct {
		PodCIDR  string   `yaml:"podCIDR"`
		PodCIDRs []string `yaml:"podCIDRs"`
		Taints   []Taint  `yaml:"taints"`
	} `yaml:"spec"`
	Status struct {
		Addresses []NodeAddress `yaml:"addresses"`
	} `yaml:"status"`
}

// Taint is what is used of a node's taint.
type Taint struct {
	Key string `yaml:"key"`
}

// NodeAddress is one of a node's addresses: Type is InternalIP, ExternalIP, Hostname or another.
type NodeAddress struct {
	Type    string `yaml:"type"`
	Address string `yaml:"address"`
}

// Node converts the object. It ignores values that cannot be read.
func (o NodeObject) Node() Node {
	n := Node{Name: o.Metadata.Name, Zone: o.Metadata.Labels.Zone}
	for _, a := range o.Status.Addresses {
		if a.Type != "InternalIP" && a.Type != "ExternalIP" {
			continue
		}
		if ip, _, err := parseAddr(a.Address); err == nil {
			n.Addresses = append(n.Addresses, ip)
		}
	}
	cidrs := o.Spec.PodCIDRs
	if len(cidrs) == 0 && o.Spec.PodCIDR != "" {
		cidrs = []string{o.Spec.PodCIDR}
	}
	for _, s := range cidrs {
		if p, _, err := parsePrefix(s); err == nil {
			n.PodCIDRs = append(n.PodCIDRs, p)
		}
	}
	n.Leaving = cmp.Or(o.deleting(), o.tainted())
	return n
}

func (o NodeObject) deleting() string {
	if o.Metadata.DeletionTimestamp == "" {
		return ""
	}
	return "its Node object is being deleted"
}

func (o NodeObject) tainted() string {
	if !slices.ContainsFunc(o.Spec.Taints, func(t Taint) bool { return t.Key == autoscalerTaint }) {
		return ""
	}
	return fmt.Sprintf("its Node object has the taint %s", autoscalerTaint)
}
