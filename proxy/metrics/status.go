package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// The metrics of a status, except those of each service.
var (
	healthy    = desc("healthy", "Whether no change has waited for more than twice the sync period.")
	problems   = desc("problems", "Lines of the status that say what is wrong.")
	conditions = desc("condition", "What is wrong and stands for a while, by kind: how many files, services or "+
		"endpoints it is about.", "kind")
	warnings = desc("warnings", "Lines of the status that say what may keep traffic away although everything is "+
		"programmed.")
	mode = desc("mode_info", "Always 1. The proxy mode in use, the one that the configuration names (empty "+
		"for this kernel's best mode), and what the preferred modes lacked at the start.", "mode", "configured", "reason")
	modeAvailable = desc("mode_available", "1 for a preferred mode that lacked something at the start and could be "+
		"used now, after a restart.", "mode")
	failuresInRow  = desc("sync_failures_in_a_row", "Syncs that failed since the last successful one.")
	refusedObjects = desc("refused_objects", "Objects that the kernel refuses now.")
	conflicts      = desc("conflicts", "Wanted virtual servers that another program made, and VIPs that another host has.")
	services       = desc("services", "Services, by state.", "state")
	virtuals       = desc("virtual_servers", "Wanted virtual servers, by state.", "state")
	reals          = desc("real_servers", "Real servers that are wanted, and those that drain.", "state")
	oldestDrain    = desc("oldest_drain_seconds", "Age of the oldest drain; 0 if there is none.")
	vips           = desc("vips", "VIPs of this node, by how they are local.", "binding")
	vipAnnounced   = desc("vip_announced", "Whether routing daemons are told of a VIP, for each that they may be told of.",
		"address")
	vipMetric = desc("vip_announced_metric", "Metric of the route of a VIP that is announced.", "address")
	vipHere   = desc("vip_here", "Whether a link of this node has a VIP that keepalived moves.", "address")
	offered   = desc("vip_offered", "Whether this node can serve a VIP that keepalived moves, and says so to it.",
		"address")
	sourceOK = desc("source_ok", "Whether what a source last read was valid; 0 while what it delivered before is "+
		"served instead.", "source")
	delivered = desc("source_delivered", "Whether a source has delivered a complete table. Until all have, nothing "+
		"is removed.", "source")
	sourceSince = desc("source_since_timestamp_seconds", "When a source last became good or bad.", "source")
	restart     = desc("config_changes_waiting_for_restart",
		"Changes in the configuration file that wait for a restart.")
	connSync     = desc("connection_sync", "Whether a configured daemon of connection sync runs.", "role")
	tracked      = desc("conntrack_entries", "Entries of the conntrack table.")
	trackedLimit = desc("conntrack_entries_limit", "Limit of entries of the conntrack table.")
	noLocal      = prometheus.NewDesc("kubeproxy_sync_proxy_rules_no_local_endpoints_total",
		"Services with traffic policy Local that have endpoints, but none on this node.",
		[]string{"traffic_policy", "ip_family"}, nil)
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("svcproxy_"+name, help, labels, nil)
}

// statusCollector exports the status of one scrape.
type statusCollector struct {
	status    status.Status
	traffic   []status.Traffic    // of status.Services; nil if nothing is counted
	frontends *frontend.Frontends // nil before the first plan
	probes    *probes
	late      func() Lateness // nil without health checks
	endpoints string          // whose endpoints have series: a service's name, "*", or "" for none
}

// Describe sends nothing, so that the collector is unchecked: its series differ from scrape to scrape.
func (s statusCollector) Describe(chan<- *prometheus.Desc) {}

func (s statusCollector) Collect(to chan<- prometheus.Metric) {
	out := output(to)
	s.daemon(out)
	s.sources(out)
	s.totals(out)
	s.noLocal(out)
	s.services(out)
	s.health(out)
}

// output is where a collector sends its metrics.
type output chan<- prometheus.Metric

func (out output) gauge(d *prometheus.Desc, n float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
}

func (out output) counter(d *prometheus.Desc, n uint64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (s statusCollector) daemon(out output) {
	out.gauge(healthy, bit(s.status.Healthy))
	out.gauge(problems, float64(len(s.status.Problems)))
	for _, k := range condition.Kinds() {
		out.gauge(conditions, float64(condition.Count(s.status.Conditions, k)), string(k))
	}
	out.gauge(warnings, float64(len(s.status.Warnings)))
	out.gauge(mode, 1, s.status.Daemon.Mode, s.status.Daemon.ConfiguredMode, s.status.Daemon.Lacks())
	if name := s.status.Daemon.AvailableMode; name != "" {
		out.gauge(modeAvailable, 1, name)
	}
	out.gauge(restart, float64(len(s.status.Daemon.Config.Restart)))
	out.gauge(failuresInRow, float64(s.status.Sync.Failures))
	for _, c := range s.status.ConnSync {
		out.gauge(connSync, bit(c.State == status.ConnSyncRunning), c.Role)
	}
	if c := s.status.Conntrack; c != nil {
		out.gauge(tracked, float64(c.Count))
		out.gauge(trackedLimit, float64(c.Max))
	}
}

func (s statusCollector) sources(out output) {
	for _, source := range s.status.Sources {
		out.gauge(sourceOK, bit(len(source.Errors) == 0), source.Name)
		out.gauge(delivered, bit(source.Delivered), source.Name)
		out.gauge(sourceSince, seconds(source.Since), source.Name)
	}
}

func (s statusCollector) totals(out output) {
	all := s.status.Totals
	out.gauge(refusedObjects, float64(all.Faults))
	out.gauge(conflicts, float64(len(s.status.Conflicts)))
	out.gauge(reals, float64(all.Reals), "wanted")
	out.gauge(reals, float64(all.Draining), "draining")
	out.gauge(vips, float64(all.VIPs), "address")
	out.gauge(vips, float64(all.RoutedVIP), "route")
	for _, a := range s.status.Announced {
		switch vip := a.Address.String(); {
		case a.Uncounted:
		case a.Moved:
			out.gauge(vipHere, bit(a.Link != ""), vip)
			out.gauge(offered, bit(a.Announced), vip)
		default:
			out.gauge(vipAnnounced, bit(a.Announced), vip)
			if a.Metric != 0 {
				out.gauge(vipMetric, float64(a.Metric), vip)
			}
		}
	}

	byState, virtualsByState := make(map[status.State]float64), make(map[status.State]float64)
	var oldest float64
	for i := range s.status.Services {
		svc := &s.status.Services[i]
		byState[svc.State]++
		for j := range svc.Virtuals {
			virtualsByState[svc.Virtuals[j].State()]++
		}
		for _, e := range svc.Endpoints {
			if e.Drain != nil {
				oldest = max(oldest, s.status.Time.Sub(e.Drain.Since).Seconds())
			}
		}
	}
	for _, state := range status.States() {
		out.gauge(services, byState[state], string(state))
	}
	for _, state := range status.VirtualStates() {
		out.gauge(virtuals, virtualsByState[state], string(state))
	}
	out.gauge(oldestDrain, oldest)
}

// noLocal counts services, not ports, as kube-proxy does.
func (s statusCollector) noLocal(out output) {
	for _, f := range families {
		internal, external := 0, 0
		if s.frontends != nil {
			internal, external = s.frontends.WithoutLocal(f)
		}
		out.gauge(noLocal, float64(internal), "internal", f.String())
		out.gauge(noLocal, float64(external), "external", f.String())
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
