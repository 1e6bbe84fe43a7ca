package kernel

import (
	"fmt"
	"slices"
	"strconv"
)

// The sizes of the connection tracker's table. All network namespaces share it.
const (
	conntrackBuckets = "net.netfilter.nf_conntrack_buckets"
	conntrackMax     = "net.netfilter.nf_conntrack_max"
)

// SmallHash says in a line for people that the connection tracker's hash is small
// for its limit and that no plan of want's makes it larger, and what would; nothing
// where either is not so. Four entries to a bucket is what kube-proxy aims at.
func SmallHash(want, have []Sysctl) []string {
	if _, ours := slices.BinarySearchFunc(want, Sysctl{Name: conntrackBuckets}, Sysctl.Compare); ours {
		return nil
	}
	buckets, limit := number(have, conntrackBuckets), number(have, conntrackMax)
	if buckets == 0 || buckets >= limit/4 {
		return nil
	}
	return []string{fmt.Sprintf("the connection tracker may hold %d entries in a hash of %d buckets, which makes lookups slow, and svcproxy may not change it here: "+
		"set options nf_conntrack hashsize=%d in /etc/modprobe.d/nf_conntrack.conf, or write that number to /sys/module/nf_conntrack/parameters/hashsize as root", limit, buckets, limit/4)}
}

// number is the value of one of sorted sysctls, 0 if it is not there.
func number(sysctls []Sysctl, name string) uint64 {
	i, found := slices.BinarySearchFunc(sysctls, Sysctl{Name: name}, Sysctl.Compare)
	if !found {
		return 0
	}
	n, _ := strconv.ParseUint(sysctls[i].Value, 10, 64)
	return n
}
