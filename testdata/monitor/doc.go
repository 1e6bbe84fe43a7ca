// Package monitor watches a svcproxy as others do: a real Prometheus scrapes it and answers the queries of
// dashboards and alerts, a real browser opens its page. Only the kernel below it is not real: see
// kernel/fake. Its tests skip where Debian's packages prometheus and chromium are not installed.
package monitor
