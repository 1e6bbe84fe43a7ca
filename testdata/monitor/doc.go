// Package monitor tests what monitoring sees: a real Prometheus scrapes svcproxy and answers the queries
// of the dashboards and alerts, and a real browser opens its page. Only the kernel below it is not real:
// see kernel/fake. What Prometheus sees comes from a file of services and from a real kube-apiserver, see
// testdata/apiserver. Its tests skip where Debian's packages prometheus, chromium and etcd-server are not
// installed, but not in make test-servers.
package monitor
