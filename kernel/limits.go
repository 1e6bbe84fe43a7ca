package kernel

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// LimitsTable is the table of the chains that refuse clients of services. It is in a table of nftables of its own,
// whatever writes the other rules: Names.LimitsTable. Its chain PREROUTING comes before that of nat, so packets have
// the VIP as their destination, and only the first packet of a connection comes there.
const LimitsTable = "limits"

// The types of sets in that table: networks, clients with their rates, and clients with their connections.
const (
	HashNet SetType = "hash:net"
	Meter   SetType = "meter:ip"
	Tally   SetType = "tally:ip"
)

// ByPackets reports whether packets make the entries of the type. No reading has these.
func (t SetType) ByPackets() bool { return t == Meter || t == Tally }

// Limited is the map of the addresses and ports of services with limits: to the chain of each.
const Limited SetName = "LIMITED"

// ChainRefuse answers what is refused with an error.
const ChainRefuse ChainName = "REFUSE"

// limitSpecs has the sets of the table of limits by their names, or by the beginnings of names that end in a hash.
var limitSpecs = []struct {
	SetSpec
	hashed bool
}{
	{SetSpec: SetSpec{Name: Limited, Type: MapIPPort, Limits: true}},
	{SetSpec: SetSpec{Name: "LIST", Type: HashNet, Limits: true}, hashed: true},
	{SetSpec: SetSpec{Name: "METER", Type: Meter, Limits: true}, hashed: true},
	{SetSpec: SetSpec{Name: "TALLY", Type: Tally, Limits: true}, hashed: true},
}

// LimitsTable is the name of our tables of nftables that have limits.
func (n Names) LimitsTable() string { return n.Table() + "-limits" }

// HashOf is the hash in names of the table of limits: of a service it is that of its namespace and name.
func HashOf(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return base32.StdEncoding.EncodeToString(sum[:])[:HashLen]
}

// Clients returns the full name of the chain of a service's limits.
func (n Names) Clients(hash string) string { return n.Prefix + "-" + clientsOf + hash }

// Allowed returns that of the chain for clients that one of several lists allows.
func (n Names) Allowed(hash string) string { return n.Prefix + "-" + allowedOf + hash }

const (
	clientsOf = "CLIENTS-"
	allowedOf = "ALLOWED-"
)

// clientsHash returns the hash in the name of a service's chain, without prefix.
func clientsHash(rest string) (hash string, ok bool) {
	for _, kind := range []string{clientsOf, allowedOf} {
		if hash, ok := strings.CutPrefix(rest, kind); ok && isHash(hash) {
			return hash, true
		}
	}
	return "", false
}

// List and Meter return the full names of sets: KUBE-6-LIST-XPGD46QRK7WJZT7O.
func (n Names) List(f Family, hash string) string { return n.hashedSet(f, "LIST", hash) }

// Meter is the set of a rate for each client.
func (n Names) Meter(f Family, hash string) string { return n.hashedSet(f, "METER", hash) }

// Tally is the set of the connections of each client.
func (n Names) Tally(f Family, hash string) string { return n.hashedSet(f, "TALLY", hash) }

// hashedSet does not cut long names as Set does: nftables has room for them.
func (n Names) hashedSet(f Family, s SetName, hash string) string {
	if f == IPv6 {
		s = "6-" + s
	}
	return n.Prefix + "-" + string(s) + "-" + hash
}

// limitSpec is SetSpec for the sets of the table of limits.
func (n Names) limitSpec(name string) (Family, SetSpec, bool) {
	rest, ok := n.cutPrefix(name)
	f := IPv4
	if after, six := strings.CutPrefix(rest, "6-"); six {
		f, rest = IPv6, after
	}
	for _, s := range limitSpecs {
		hash, prefixed := strings.CutPrefix(rest, string(s.Name))
		if ok && prefixed && (!s.hashed && hash == "" || s.hashed && strings.HasPrefix(hash, "-") && isHash(hash[1:])) {
			return f, s.SetSpec, true
		}
	}
	return 0, SetSpec{}, false
}

// isHash reports whether a name may end in s.
func isHash(s string) bool { return len(s) == HashLen && strings.Trim(s, alphabet) == "" }

// ownsLimit reports whether a chain of the table of limits is ours, by its name without prefix.
func ownsLimit(rest string) bool {
	_, ok := clientsHash(rest)
	return ok || rest == string(ChainRefuse)
}

// InLimits reports whether an object is in the table of limits.
func (n Names) InLimits(o Object) bool {
	set := ""
	switch o := o.(type) {
	case Chain:
		return o.Table == LimitsTable
	case Set:
		set = o.Name
	case Entry:
		set = o.Set
	default:
		return false
	}
	_, _, ok := n.limitSpec(set)
	return ok
}

// GotoTable is the table of the chains that a map leads to.
func (n Names) GotoTable(set string) string {
	if _, _, ok := n.limitSpec(set); ok {
		return LimitsTable
	}
	return "nat"
}

// TableOf is the name of the table of nftables that an object is in.
func (n Names) TableOf(o Object) string {
	if n.InLimits(o) {
		return n.LimitsTable()
	}
	return n.Table()
}
