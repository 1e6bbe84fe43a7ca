package docs

import "github.com/svcproxy/svcproxy/proxy/cli"

const about = `svcproxy makes the kernel of this node serve the services of services.toml(5). It programs IPVS
virtual and real servers, ipsets, a constant number of iptables rules, virtual addresses and kernel parameters,
under the names that the IPVS mode of kube-proxy uses. Kubernetes is not needed. Packets do not pass through
svcproxy: when it stops, the kernel goes on serving. When it starts, it takes over what is there and changes only
what differs. Objects that other programs made stay as they are.

A kernel without IPVS is served by rules of iptables alone (mode iptables). One without these is served by sockets
of svcproxy itself (mode userspace): packets pass through it, and when it ends, so do their connections. The log
says which mode is used, and why.

svcproxy-start(7) leads from the installation to a pair of nodes. svcproxy-concepts(7) explains how clients reach a VIP
and which address backends see. svcproxy-troubleshooting(7) is for a service that does not answer.`

var signals = [][2]string{
	{"SIGHUP", "Read all files again, as svcproxy reload does, and check the kernel in full."},
	{"SIGTERM, SIGINT", "End the process; a second one does so at once. The kernel goes on serving, except in mode " +
		"userspace; svcproxy cleanup ends that."},
	{"SIGUSR1", "Write the last reading of the kernel, and what the loop remembers, to the log."},
	{"SIGUSR2", "Turn debug logging on or off."},
}

// exits has every exit code of package cli.
var exits = []struct {
	code    int
	meaning string
}{
	{cli.OK, "Success."},
	{cli.Failed, "Failure, or what the command lists for it."},
	{cli.Usage, "The command line is not valid."},
	{cli.Config, "The configuration or a service file is not valid."},
	{cli.Missing, "The kernel or a program lacks something. The hint says how to get it."},
	{cli.Permission, "Permission is denied."},
	{cli.NoDaemon, "svcproxy does not run, or does not answer."},
	{cli.Degraded, "svcproxy works, and something is wrong or served only in part: what the command lists for it."},
	{cli.NoBackends, "status: a service has no backends."},
	{cli.Changes, "plan --detailed-exitcode: a sync would change something."},
}

var filesOnDisk = [][2]string{
	{"/etc/svcproxy/svcproxy.toml", "The configuration of this node: svcproxy.toml(5)."},
	{"/etc/svcproxy/services.toml, /etc/svcproxy/services.d/*.toml", "The services: services.toml(5)."},
	{"/etc/default/svcproxy, /etc/sysconfig/svcproxy",
		"SVCPROXY_OPTS: flags for the systemd unit. Debian packages have the first file, rpm packages the second."},
	{"/run/svcproxy/svcproxy.sock", "The control socket of the running svcproxy, for root and the group svcproxy. The " +
		"commands that show what it does, explain without root, reload and the operator's orders use it."},
	{"/var/lib/svcproxy", "State that survives a restart: the last good services, the operator's orders, the kernel " +
		"parameters as svcproxy found them, and the names of the last run."},
	{"/usr/share/svcproxy", "JSON schemas of the files, alerts for Prometheus, and a dashboard for Grafana."},
}

var environment = [][2]string{
	{"NO_COLOR", "If set, the output has no colours, even on a terminal."},
	{"NOTIFY_SOCKET, WATCHDOG_USEC", "Set by systemd. svcproxy sends READY after the first sync, STATUS with what is " +
		"served and what is wrong, and WATCHDOG while its loop answers."},
}

var examples = [][2]string{
	{"Serve the services of services.toml:", "systemctl start svcproxy"},
	{"Check the files, and see what they would change. Both commands change nothing:", "svcproxy check\nsvcproxy plan"},
	{"See why a VIP is not reached:", "svcproxy explain tcp 198.51.100.80:80"},
	{"Find what is wrong on this node:", "svcproxy doctor --probe"},
	{"Take a server out for maintenance, wait until its last connection has ended, and give it back:",
		"svcproxy drain 10.2.1.10 --reason 'kernel upgrade' --wait\nsvcproxy undrain 10.2.1.10"},
	{"Remove everything that svcproxy made from the kernel:", "systemctl stop svcproxy\nsvcproxy cleanup"},
}

const example = `[services.web]
vips = ["198.51.100.80"]
port = 80
scheduler = "wrr"
backends = [
  "10.2.1.10:8080",
  { address = "10.2.2.10", port = 8080, weight = 3 },
]
keepClientAddress = false
healthCheck = "tcp"

# The same words as in Kubernetes do as well.
[services.shop]
type = "LoadBalancer"
loadBalancerIPs = ["198.51.100.81"]
ports = [
  { name = "http",  port = 80,  targetPort = 8080 },
  { name = "https", port = 443, targetPort = 8443 },
]
endpoints = ["10.2.1.10", "10.2.2.10"]
`
