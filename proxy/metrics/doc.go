// Package metrics is what svcproxy tells Prometheus: kube-proxy's metrics under their own names, labels and
// buckets (those of v1.34 in mode ipvs), so that dashboards and alerts made for it go on working, and
// svcproxy_* ones of everything that kube-proxy says nothing about.
//
// What the loop does is counted when it reports (Metrics.Synced); how things stand is asked for at each
// scrape, once, by one reading of status.Status, and nothing else is done for a scrape. So a scrape costs
// the kernel what one `svcproxy status` does, and says the same.
//
// # How many series there are
//
// About 500 of a fixed number, most of them buckets, and 7 of each service, some 520 bytes of text together:
// 5,000 services with 10 endpoints each are 35,500 series and 2.6 MB, 0.12 MB as sent (gzip), and take
// about 0.2 s of a processor. Of more than MaxServices, the rest, in order of name, have no series;
// svcproxy_services_unlisted says how many. Series of each endpoint, 3 of some 120 bytes, are there only when
// asked for: /metrics?endpoints=default/web, or endpoints=* for those of all services, at most MaxEndpoints.
//
// It keeps a registry of its own, decides nothing, and reads neither kernel nor file.
package metrics
