package kernel

import "strings"

// ChainName is the name of an owned chain without prefix.
type ChainName string

// The owned chains with fixed names. ChainServices, ChainNodePort and ChainNodePorts exist
// in nat and in filter.
const (
	ChainServices             ChainName = "SERVICES"
	ChainPostrouting          ChainName = "POSTROUTING"
	ChainMarkMasq             ChainName = "MARK-MASQ"
	ChainLoadBalancer         ChainName = "LOAD-BALANCER"
	ChainNodePort             ChainName = "NODE-PORT"
	ChainForward              ChainName = "FORWARD"
	ChainProxyFirewall        ChainName = "PROXY-FIREWALL"
	ChainSourceRangesFirewall ChainName = "SOURCE-RANGES-FIREWALL"
	ChainIPVSFilter           ChainName = "IPVS-FILTER"
	ChainIPVSOutFilter        ChainName = "IPVS-OUT-FILTER"

	// Those of mode iptables alone. The last two are ours, the others kube-proxy's. Mode nftables has ChainVIPFilter, too.
	ChainNodePorts        ChainName = "NODEPORTS"
	ChainExternalServices ChainName = "EXTERNAL-SERVICES"
	ChainVIPFilter        ChainName = "VIP-FILTER"
	ChainLocalnetFirewall ChainName = "LOCALNET-FIREWALL"

	// Those of mode userspace: packets from other hosts, and the node's own.
	ChainPortalsContainer ChainName = "PORTALS-CONTAINER"
	ChainPortalsHost      ChainName = "PORTALS-HOST"

	// Those of table raw, which earlier versions made. No state wants them, so Diff removes them.
	formerUntracked ChainName = "UNTRACKED"
	formerNotrack   ChainName = "NOTRACK"

	// ChainTrial is written at a start, to see which rules are taken, and removed at once. It
	// is owned so that the next plan removes what a crash left of it.
	ChainTrial ChainName = "TMP-TRIAL"
)

var chainNames = map[string][]ChainName{
	"raw": {ChainIPVSOutFilter, formerUntracked, formerNotrack}, // the first one by package nft
	"nat": {ChainServices, ChainPostrouting, ChainMarkMasq, ChainLoadBalancer, ChainNodePort, ChainNodePorts,
		ChainPortalsContainer, ChainPortalsHost, ChainVIPFilter, ChainTrial},
	"filter": {
		ChainForward, ChainProxyFirewall, ChainSourceRangesFirewall, ChainNodePort, ChainIPVSFilter, ChainIPVSOutFilter,
		ChainServices, ChainNodePorts, ChainExternalServices, ChainVIPFilter, ChainLocalnetFirewall, ChainTrial,
	},
}

// ChainKind is the kind of a chain in table nat whose name ends in a hash of what it is
// for. Mode iptables has these, with kube-proxy's names.
type ChainKind string

// The kinds.
const (
	ChainCluster  ChainKind = "SVC" // a service port's endpoints under policy Cluster
	ChainLocal    ChainKind = "SVL" // those under policy Local
	ChainExternal ChainKind = "EXT" // the way from addresses other than cluster IPs
	ChainFirewall ChainKind = "FW"  // the source ranges of load balancer IPs
	ChainEndpoint ChainKind = "SEP" // one endpoint
)

var chainKinds = [...]ChainKind{ChainCluster, ChainLocal, ChainExternal, ChainFirewall, ChainEndpoint}

// HashLen is the length of the hash in a chain's name: characters of base32.
const HashLen = 16

// maxChainName is XT_EXTENSION_MAXNAMELEN without its NUL: both back ends of iptables
// refuse 29 characters (measured with 1.8.9).
const maxChainName = 28

// Chain returns the full name of a chain: KUBE-SERVICES. A name that is too long because
// of a long prefix is cut, as names of sets are.
func (n Names) Chain(c ChainName) string {
	name := n.Prefix + "-" + string(c)
	return name[:min(len(name), maxChainName)]
}

// Hashed returns the full name of a chain with a hash: KUBE-SVC-XPGD46QRK7WJZT7O.
func (n Names) Hashed(k ChainKind, hash string) string {
	return n.Prefix + "-" + string(k) + "-" + hash
}

// Balancer returns the full name of a chain of mode nftables that sends packets to the slots of their frontend:
// KUBE-LB-3. The chains of a class are alike but for the number of slots.
func (n Names) Balancer(class string) string { return n.Prefix + "-" + balancer + class }

const balancer = "LB-"

// isBalancer reports whether Balancer named a chain, without prefix.
func isBalancer(rest string) bool {
	class, ok := strings.CutPrefix(rest, balancer)
	return ok && class != "" && strings.Trim(class, alphabet+"0189-") == ""
}

// IsChain reports whether full is Chain(c), without building it.
func (n Names) IsChain(full string, c ChainName) bool {
	rest, ok := n.cutPrefix(full)
	return ok && isChain(full, rest, c)
}

func isChain(full, rest string, c ChainName) bool {
	return rest == string(c) || len(full) == maxChainName && strings.HasPrefix(string(c), rest)
}

// cutPrefix returns a name of ours without the prefix and the hyphen after it.
func (n Names) cutPrefix(full string) (string, bool) {
	rest, ok := strings.CutPrefix(full, n.Prefix)
	if ok {
		rest, ok = strings.CutPrefix(rest, "-")
	}
	return rest, ok
}

// OwnsChain reports whether a chain of this name in this table is owned. It is asked about
// each rule of a reading, so it builds no names.
func (n Names) OwnsChain(table, name string) bool {
	rest, ok := n.cutPrefix(name)
	if !ok {
		return false
	}
	for _, c := range chainNames[table] {
		if isChain(name, rest, c) {
			return true
		}
	}
	switch table {
	case "nat":
		return hashedKind(rest) != "" || isBalancer(rest)
	case LimitsTable:
		return ownsLimit(rest)
	}
	return false
}

// OwnsHashed returns the kind of an owned chain of table nat whose name has a hash, and ""
// for any other name.
func (n Names) OwnsHashed(name string) ChainKind {
	rest, ok := n.cutPrefix(name)
	if !ok {
		return ""
	}
	return hashedKind(rest)
}

// hashedKind returns the kind of a name without prefix, "" if it has no hash.
func hashedKind(rest string) ChainKind {
	for _, k := range chainKinds {
		hash, ok := strings.CutPrefix(rest, string(k)+"-")
		if ok && isHash(hash) {
			return k
		}
	}
	return ""
}

// alphabet is base32 of RFC 4648.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
