package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/kernel"
)

// Work counts what the kernel was asked for since the start. No counter ever falls.
type Work struct {
	Sockets []Socket
	// IPTablesReads and IPTablesWrites count the iptables programs that were run.
	IPTablesReads, IPTablesWrites uint64
	Tracked                       map[kernel.Family]Tracked
}

// Socket counts the traffic of the netlink sockets of one adapter.
type Socket struct {
	Name     string // the adapter: "ipvs"
	Messages uint64 // those that may change the kernel
	Queries  uint64
	Syscalls uint64
}

// Tracked counts the conntrack entries that were deleted, and the time that took.
type Tracked struct {
	Deleted uint64
	Took    time.Duration
}

var (
	messages = prometheus.NewDesc("svcproxy_netlink_messages_total", "Messages sent to the kernel: changes and queries.",
		[]string{"socket", "kind"}, nil)
	syscalls = prometheus.NewDesc("svcproxy_netlink_syscalls_total", "System calls on netlink sockets.",
		[]string{"socket"}, nil)
	tools = prometheus.NewDesc("svcproxy_iptables_runs_total",
		"iptables programs that were run, to read or to write rules.", []string{"kind"}, nil)
)

// workCollector exports Work at each scrape.
type workCollector struct{ work func() Work }

func (w workCollector) Describe(d chan<- *prometheus.Desc) {
	d <- messages
	d <- syscalls
	d <- tools
}

func (w workCollector) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	now := w.work()
	for _, s := range now.Sockets {
		counter(messages, s.Messages, s.Name, "change")
		counter(messages, s.Queries, s.Name, "query")
		counter(syscalls, s.Syscalls, s.Name)
	}
	counter(tools, now.IPTablesReads, "read")
	counter(tools, now.IPTablesWrites, "write")
}
