package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// The metrics of how things stand, but for those of each service.
var (
	healthy     = desc("healthy", "Whether nothing to be programmed has waited for twice the sync period.")
	problems    = desc("problems", "Things that are not as they should be: lines of the status.")
	warnings    = desc("warnings", "Things that may keep traffic away although all is programmed: lines of the status.")
	mode        = desc("mode_info", "Always 1. The proxy mode in use.", "mode")
	inRow       = desc("sync_failures_in_a_row", "Syncs that failed since one succeeded.")
	refusedNow  = desc("refused_objects", "Objects that the kernel refuses now.")
	conflicts   = desc("conflicts", "Wanted virtual servers that somebody else has made.")
	services    = desc("services", "Services, by how they are served.", "state")
	virtuals    = desc("virtual_servers", "Virtual servers that are wanted, by how they are served.", "state")
	reals       = desc("real_servers", "Real servers: those that are wanted, and those that are not and wait for their connections to end.", "state")
	oldestDrain = desc("oldest_drain_seconds", "Age of the longest drain under way; 0 if there is none.")
	vips        = desc("vips", "Addresses of services that were made this node's, by how.", "binding")
	sourceOK    = desc("source_ok", "Whether what a source read last was good; 0 while what it gave before is served instead.", "source")
	sourceSpoke = desc("source_delivered", "Whether a source has given a complete table. Until all have, nothing is removed.", "source")
	sourceSince = desc("source_since_timestamp_seconds", "When a source last became good or bad.", "source")
	restart     = desc("config_changes_waiting_for_restart", "Changes in the configuration file that only a restart brings.")
	tracked     = desc("conntrack_entries", "Connections that the kernel tracks.")
	trackedMost = desc("conntrack_entries_limit", "Connections that the kernel would track at most.")
	noLocal     = prometheus.NewDesc("kubeproxy_sync_proxy_rules_no_local_endpoints_total",
		"Services with traffic policy Local that have endpoints, but none on this node.", []string{"traffic_policy", "ip_family"}, nil)
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("svcproxy_"+name, help, labels, nil)
}

// standing tells a status, that of one scrape.
type standing struct {
	status    status.Status
	traffic   []status.Traffic // of status.Services
	endpoints string           // whose endpoints have series: a service's name, "*", or "" for none
}

// Describe says nothing: what there is to tell is found at each scrape.
func (s standing) Describe(chan<- *prometheus.Desc) {}

func (s standing) Collect(to chan<- prometheus.Metric) {
	t := teller{to}
	s.daemon(t)
	s.sources(t)
	s.totals(t)
	s.noLocal(t)
	s.services(t)
}

// teller makes metrics of numbers.
type teller struct{ to chan<- prometheus.Metric }

func (t teller) gauge(d *prometheus.Desc, n float64, labels ...string) {
	t.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
}

func (t teller) counter(d *prometheus.Desc, n uint64, labels ...string) {
	t.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (s standing) daemon(t teller) {
	t.gauge(healthy, bit(s.status.Healthy))
	t.gauge(problems, float64(len(s.status.Problems)))
	t.gauge(warnings, float64(len(s.status.Warnings)))
	t.gauge(mode, 1, s.status.Daemon.Mode)
	t.gauge(restart, float64(len(s.status.Daemon.Config.Restart)))
	t.gauge(inRow, float64(s.status.Sync.Failures))
	if c := s.status.Conntrack; c != nil {
		t.gauge(tracked, float64(c.Count))
		t.gauge(trackedMost, float64(c.Max))
	}
}

func (s standing) sources(t teller) {
	for _, source := range s.status.Sources {
		t.gauge(sourceOK, bit(len(source.Errors) == 0), source.Name)
		t.gauge(sourceSpoke, bit(source.Delivered), source.Name)
		t.gauge(sourceSince, seconds(source.Since), source.Name)
	}
}

func (s standing) totals(t teller) {
	all := s.status.Totals
	t.gauge(refusedNow, float64(all.Faults))
	t.gauge(conflicts, float64(len(s.status.Conflicts)))
	t.gauge(reals, float64(all.Reals), "wanted")
	t.gauge(reals, float64(all.Draining), "draining")
	t.gauge(vips, float64(all.VIPs), "address")
	t.gauge(vips, float64(all.RoutedVIP), "route")

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
		t.gauge(services, byState[state], string(state))
	}
	for _, state := range status.VirtualStates() {
		t.gauge(virtuals, virtualsByState[state], string(state))
	}
	t.gauge(oldestDrain, oldest)
}

// noLocal counts as kube-proxy does, services and not their ports. Those that localFallback sends to
// endpoints elsewhere are served, and not among them.
func (s standing) noLocal(t teller) {
	const local = "Local"
	for _, f := range families {
		var internal, external float64
		for i := range s.status.Services {
			svc := &s.status.Services[i]
			if svc.InternalPolicy != local && svc.ExternalPolicy != local || !hasEndpoints(svc, f) {
				continue
			}
			in, ex := withoutBackends(svc, f)
			internal += bit(in && svc.InternalPolicy == local)
			external += bit(ex && svc.ExternalPolicy == local)
		}
		t.gauge(noLocal, internal, "internal", f.String())
		t.gauge(noLocal, external, "external", f.String())
	}
}

func hasEndpoints(s *status.Service, f kernel.Family) bool {
	for _, e := range s.Endpoints {
		if kernel.FamilyOf(e.Address.Addr()) == f {
			return true
		}
	}
	return false
}

// withoutBackends says whether an address for clients inside, and one for those outside, has no backends.
func withoutBackends(s *status.Service, f kernel.Family) (internal, external bool) {
	for _, v := range s.Virtuals {
		if v.Backends > 0 || kernel.FamilyOf(v.Address.Addr()) != f {
			continue
		}
		if v.Kind == status.KindClusterIP {
			internal = true
		} else {
			external = true
		}
	}
	return internal, external
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
