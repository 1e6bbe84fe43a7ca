package rules

import (
	"strconv"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// ConntrackMax is the size of the connection table, of all network namespaces
// together: only in the first of them can it be written.
const ConntrackMax = conntrackPrefix + "max"

// ConntrackBuckets is the size of its hash, likewise.
const ConntrackBuckets = conntrackPrefix + "buckets"

const conntrackPrefix = "net.netfilter.nf_conntrack_"

// SysctlNames are the parameters that State may want to be set.
var SysctlNames = []string{
	"net.ipv4.conf.all.arp_announce",
	"net.ipv4.conf.all.arp_ignore",
	"net.ipv4.ip_forward",
	"net.ipv4.vs.conn_reuse_mode",
	"net.ipv4.vs.conntrack",
	"net.ipv4.vs.expire_nodest_conn",
	"net.ipv4.vs.expire_quiescent_template",
	"net.ipv6.conf.all.forwarding",
	ConntrackBuckets,
	ConntrackMax,
	conntrackPrefix + "tcp_be_liberal",
	conntrackPrefix + "tcp_timeout_close_wait",
	conntrackPrefix + "tcp_timeout_established",
	conntrackPrefix + "udp_timeout",
	conntrackPrefix + "udp_timeout_stream",
}

// sysctls are the kernel parameters that serving needs. route_localnet is not among them, ever: it would
// open the host's loopback to its neighbours.
func sysctls(n kernel.Node, c Config, servesIPv6 bool) []kernel.Sysctl {
	s := []kernel.Sysctl{
		// Without vs.conntrack MASQUERADE is silently not applied to what IPVS has balanced.
		{Name: "net.ipv4.vs.conntrack", Value: "1"},
		// Without expire_nodest_conn a UDP flow to a real server that is gone is a black hole.
		{Name: "net.ipv4.vs.expire_nodest_conn", Value: "1"},
		// Without expire_quiescent_template persistence keeps a client with a real server that drains.
		{Name: "net.ipv4.vs.expire_quiescent_template", Value: "1"},
		{Name: "net.ipv4.ip_forward", Value: "1"},
	}
	if servesIPv6 {
		s = append(s, kernel.Sysctl{Name: "net.ipv6.conf.all.forwarding", Value: "1"})
	}
	// In between, a client that reuses a port early waits a second for its connection; before 4.1 there
	// was no such parameter, and from 5.9 on the default is right.
	if !n.Release.Before(4, 1) && n.Release.Before(5, 9) {
		s = append(s, kernel.Sysctl{Name: "net.ipv4.vs.conn_reuse_mode", Value: "0"})
	}
	if c.StrictARP {
		s = append(s,
			kernel.Sysctl{Name: "net.ipv4.conf.all.arp_ignore", Value: "1"},
			kernel.Sysctl{Name: "net.ipv4.conf.all.arp_announce", Value: "2"})
	}
	return append(s, c.Conntrack.sysctls()...)
}

// What Linux begins with, in seconds (nf_conntrack_proto_tcp.c, tcp_timeouts).
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

// bucketStep is how many buckets fill a page of 64 KiB, the largest that Linux has: it rounds their number
// up to whole pages, and what is read back has to be what was written.
const bucketStep = 8192

// Buckets is how many the connection tracker's hash should have for this many entries: a quarter, as
// kube-proxy has it.
func Buckets(entries uint32) uint32 {
	n := (uint64(entries) + 4*bucketStep - 1) / (4 * bucketStep) * bucketStep
	return uint32(min(n, 1<<30))
}
