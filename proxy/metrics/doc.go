// Package metrics exports svcproxy to Prometheus. It has the metrics of kube-proxy v1.34 in the same mode with
// their names, labels and buckets, so that dashboards and alerts for kube-proxy keep working. Everything
// else is named svcproxy_*. Two are missing in mode iptables, as they are beside kube-proxy on a kernel without
// nfnetlink_acct: kubeproxy_iptables_ct_state_invalid_dropped_packets_total and
// kubeproxy_iptables_localhost_nodeports_accepted_packets_total.
//
// Metrics.Synced counts what each sync did. A scrape reads one status.Status and exports it: it costs the
// kernel as much as one `svcproxy status`, and both show the same values.
//
// # Number of series
//
// There are about 500 series of fixed number, most of them buckets, and 7 for each service, which take some
// 520 bytes of text. 5,000 services with 10 endpoints each have 35,500 series and 2.6 MB (0.12 MB with gzip);
// those with scheduler mh have one more, and those with allow, deny or limits up to four. A scrape takes about
// 0.2 s of one processor. If there are more than MaxServices, those after them by name have no series, and
// svcproxy_services_unlisted counts them. Each endpoint has 3 series of some 120 bytes, only on request:
// /metrics?endpoints=web, or endpoints=* for all services, at most MaxEndpoints.
//
// Health checks add 26 series, 34 for each type of probe in use and 3 for each service, 4 if it has a
// certificate. Each checked endpoint has one more, or two if it has a certificate: in every scrape if there
// are at most MaxHealthEndpoints, else on request like those above. A result of a probe costs 100 ns and no allocation.
//
// The package has its own registry. It reads neither the kernel nor files.
package metrics
