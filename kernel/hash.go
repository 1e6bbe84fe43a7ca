package kernel

import (
	"fmt"
	"slices"
	"strconv"
)

// Sysctls of the connection tracker's table, which all network namespaces share.
const (
	conntrackBuckets = "net.netfilter.nf_conntrack_buckets"
	conntrackMax     = "net.netfilter.nf_conntrack_max"
)

// SmallHash returns a warning if the connection tracker's hash is small for its limit
// and the wanted sysctls do not change that, nil otherwise. kube-proxy aims at four
// entries a bucket.
func SmallHash(want, have []Sysctl) []string {
	if _, ours := slices.BinarySearchFunc(want, Sysctl{Name: conntrackBuckets}, Sysctl.Compare); ours {
		return nil
	}
	buckets, limit := number(have, conntrackBuckets), number(have, conntrackMax)
	if buckets == 0 || buckets >= limit/4 {
		return nil
	}
	return []string{fmt.Sprintf("the connection tracker may hold %d entries in a hash of %d buckets, which makes "+
		"lookups slow, and svcproxy may not change it here: "+
		"set options nf_conntrack hashsize=%d in /etc/modprobe.d/nf_conntrack.conf, or write that number to "+
		"/sys/module/nf_conntrack/parameters/hashsize as root", limit, buckets, limit/4)}
}

// number returns the value of one of sorted sysctls, 0 if it does not exist.
func number(sysctls []Sysctl, name string) uint64 {
	i, found := slices.BinarySearchFunc(sysctls, Sysctl{Name: name}, Sysctl.Compare)
	if !found {
		return 0
	}
	n, _ := strconv.ParseUint(sysctls[i].Value, 10, 64)
	return n
}
