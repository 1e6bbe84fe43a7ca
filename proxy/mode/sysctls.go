package mode

import (
	"strconv"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// ConntrackMax is the size of the connection table of all network namespaces. It
// can be written only in the first of them.
const ConntrackMax = conntrackPrefix + "max"

// ConntrackBuckets is the size of its hash, writable likewise.
const ConntrackBuckets = conntrackPrefix + "buckets"

const conntrackPrefix = "net.netfilter.nf_conntrack_"

// SysctlNames are the parameters that Sysctls may return, sorted, without those of links.
var SysctlNames = []string{
	"net.ipv4.conf.all.arp_announce",
	"net.ipv4.conf.all.arp_ignore",
	"net.ipv4.ip_forward",
	kernel.ForwardingIPv6,
	ConntrackBuckets,
	ConntrackMax,
	conntrackPrefix + "tcp_be_liberal",
	conntrackPrefix + "tcp_timeout_close_wait",
	conntrackPrefix + "tcp_timeout_established",
	conntrackPrefix + "udp_timeout",
	conntrackPrefix + "udp_timeout_stream",
}

// Sysctls returns the kernel parameters that modes need which forward. route_localnet is
// never one of them: it would let neighbours reach the host's loopback.
func Sysctls(f *frontend.Frontends, c Config) []kernel.Sysctl {
	s := []kernel.Sysctl{{Name: "net.ipv4.ip_forward", Value: "1"}}
	if f.Serves(kernel.IPv6) {
		s = append(s, kernel.Sysctl{Name: kernel.ForwardingIPv6, Value: "1"})
		for _, link := range f.Node.Advertised { // the node keeps its default route
			s = append(s, kernel.Sysctl{Name: kernel.AcceptRA(link), Value: "2", Over: "1"})
		}
	}
	s = append(s, ARP(c)...)
	return append(s, c.Conntrack.sysctls()...)
}

// ARPSysctls are the parameters that ARP may return, sorted.
var ARPSysctls = []string{"net.ipv4.conf.all.arp_announce", "net.ipv4.conf.all.arp_ignore"}

// ARP returns the kernel parameters for which links a VIP is answered on.
func ARP(c Config) []kernel.Sysctl {
	if !c.StrictARP {
		return nil
	}
	return []kernel.Sysctl{
		{Name: "net.ipv4.conf.all.arp_ignore", Value: "1"},
		{Name: "net.ipv4.conf.all.arp_announce", Value: "2"},
	}
}

// The defaults of Linux, in seconds (nf_conntrack_proto_tcp.c, tcp_timeouts).
const (
	linuxTCPEstablished = 5 * 24 * 60 * 60
	linuxTCPCloseWait   = 60
)

func (c Conntrack) sysctls() []kernel.Sysctl {
	var s []kernel.Sysctl
	set := func(name string, value uint64) *kernel.Sysctl {
		if value == 0 {
			return new(kernel.Sysctl)
		}
		s = append(s, kernel.Sysctl{Name: conntrackPrefix + name, Value: strconv.FormatUint(value, 10)})
		return &s[len(s)-1]
	}
	timeout := func(name string, d time.Duration, exact bool, linux uint64) {
		if p := set(name, uint64(d/time.Second)); !exact {
			p.Over = strconv.FormatUint(linux, 10)
		}
	}
	set("max", uint64(c.Max)).AtLeast = !c.Exact.Max
	set("buckets", uint64(c.Buckets)).AtLeast = true
	timeout("tcp_timeout_established", c.TCPEstablished, c.Exact.TCPEstablished, linuxTCPEstablished)
	timeout("tcp_timeout_close_wait", c.TCPCloseWait, c.Exact.TCPCloseWait, linuxTCPCloseWait)
	set("udp_timeout", uint64(c.UDP/time.Second))
	set("udp_timeout_stream", uint64(c.UDPStream/time.Second))
	if c.TCPBeLiberal {
		set("tcp_be_liberal", 1)
	}
	return s
}

// bucketStep is how many buckets fill a page of 64 KiB, the largest page size of
// Linux. Linux rounds the number up to whole pages, and the value read back must
// be the value written.
const bucketStep = 8192

// Buckets returns how many buckets the connection tracker's hash should have for
// a number of entries: a quarter of it, as in kube-proxy.
func Buckets(entries uint32) uint32 {
	n := (uint64(entries) + 4*bucketStep - 1) / (4 * bucketStep) * bucketStep
	return uint32(min(n, 1<<30))
}
