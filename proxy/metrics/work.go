package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/kernel"
)

// Work is what the kernel was asked for so far. Nothing in it ever shrinks.
type Work struct {
	Sockets []Socket
	// IPTablesReads and IPTablesWrites are the iptables tools that were run.
	IPTablesReads, IPTablesWrites uint64
	Tracked                       map[kernel.Family]Tracked
}

// Socket is what went over the netlink sockets of one use.
type Socket struct {
	Name     string // what for: "ipvs"
	Messages uint64 // that may change the kernel
	Queries  uint64
	Syscalls uint64
}

// Tracked are the tracked connections that were deleted, and how long that took.
type Tracked struct {
	Deleted uint64
	Took    time.Duration
}

var (
	messages = prometheus.NewDesc("svcproxy_netlink_messages_total", "Messages sent to the kernel: changes, and queries.", []string{"socket", "kind"}, nil)
	syscalls = prometheus.NewDesc("svcproxy_netlink_syscalls_total", "System calls made to talk to the kernel.", []string{"socket"}, nil)
	tools    = prometheus.NewDesc("svcproxy_iptables_runs_total", "iptables tools that were run, to read rules or to write them.", []string{"kind"}, nil)
)

// worked tells Work at each scrape.
type worked struct{ work func() Work }

func (w worked) Describe(d chan<- *prometheus.Desc) {
	d <- messages
	d <- syscalls
	d <- tools
}

func (w worked) Collect(to chan<- prometheus.Metric) {
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
