package docs

import "github.com/svcproxy/svcproxy/proxy/cli"

const about = `svcproxy makes this node's kernel serve a table of services: IPVS virtual and real servers, ipsets, a constant number of
iptables rules, virtual addresses and kernel parameters, under the names that kube-proxy's IPVS mode gives them, with no Kubernetes
needed. It programs the kernel and stands beside: when it stops, the kernel goes on serving, and when it starts, it takes over what
is there and changes only what is not as it should be. What others have made on the node stays as it is.`

var signals = [][2]string{
	{"SIGHUP", "Reads all files again, as svcproxy reload does, and checks the kernel in full."},
	{"SIGTERM, SIGINT", "End the process. The kernel goes on serving; svcproxy cleanup ends that."},
	{"SIGUSR1", "Writes the last reading of the kernel to the log."},
	{"SIGUSR2", "Turns debug logging on and off."},
}

// exits has every code of package cli.
var exits = []struct {
	code    int
	meaning string
}{
	{cli.OK, "All is well."},
	{cli.Failed, "It failed."},
	{cli.Usage, "The command line is not understood."},
	{cli.Config, "The configuration, or a service file, is not valid."},
	{cli.Missing, "The kernel or a program lacks something; the hint says what brings it."},
	{cli.Permission, "No permission."},
	{cli.NoDaemon, "The running svcproxy cannot be reached."},
	{cli.Degraded, "status: something is not as it should be. reload --wait: all is programmed but what is in conflict."},
	{cli.NoBackends, "status: a service has nobody to serve it."},
	{cli.Changes, "plan --detailed-exitcode: there is something to do."},
}

var filesOnDisk = [][2]string{
	{"/etc/svcproxy/svcproxy.toml", "How this node's proxy behaves: svcproxy.toml(5)."},
	{"/etc/svcproxy/services.toml, /etc/svcproxy/services.d/*.toml", "What is served: services.toml(5)."},
	{"/etc/default/svcproxy, /etc/sysconfig/svcproxy", "SVCPROXY_OPTS, flags for the unit; the first is Debian's place, the second that of rpm."},
	{"/run/svcproxy/svcproxy.sock", "What status and reload talk to; for root and the group svcproxy."},
	{"/var/lib/svcproxy", "What survives a restart: last good services, kernel parameters as found, names of the last run."},
	{"/usr/share/svcproxy", "JSON schemas of the files, alerts for Prometheus, a dashboard for Grafana."},
}

var environment = [][2]string{
	{"NO_COLOR", "No colours, even at a terminal."},
	{"NOTIFY_SOCKET, WATCHDOG_USEC", "As systemd sets them: READY comes after the first sync, STATUS says what is served and what is wrong, and WATCHDOG is fed only while the loop is alive."},
}

var examples = [][2]string{
	{"Serve what services.toml says:", "systemctl start svcproxy"},
	{"Is a file right, and what would it change? Both change nothing:", "svcproxy check\nsvcproxy plan"},
	{"Take everything of svcproxy's out of the kernel:", "systemctl stop svcproxy\nsvcproxy cleanup"},
}

const example = `[services.web]
type = "LoadBalancer"
loadBalancerIPs = ["198.51.100.80"]
ports = [
  { name = "http",  port = 80,  targetPort = 8080 },
  { name = "https", port = 443, targetPort = 8443 },
]
endpoints = [
  "10.2.1.10",
  { address = "10.2.2.10", weight = 3 },
]

[services.dns]
clusterIP = "10.96.0.10"
ports = [
  { name = "dns",     port = 53, protocol = "UDP" },
  { name = "dns-tcp", port = 53 },
]
endpoints = ["10.2.1.53", "10.2.2.53"]
`
