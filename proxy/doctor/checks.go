package doctor

// check is one check. Judge returns what is wrong.
type check struct {
	name, about string
	judge       func(*Facts) []Finding
	// last: it is asked only if nothing else was found. It finds what other findings have as
	// their consequence.
	last bool
}

// checks are in the order in which causes come before what follows from them.
var checks = []check{
	{name: "configuration", about: "svcproxy.toml and the service files are valid", judge: configuration},
	{name: "unit", about: "systemd may start svcproxy, and does so at boot", judge: unit},
	{name: "disk", about: "the disks of svcproxy's folders have room and can be written", judge: disk},
	{name: "folders", about: "svcproxy may write its folders, and others may not", judge: folders},
	{name: "modules", about: "the kernel has the modules of the mode and of the schedulers, now and after a boot", judge: modules},
	{name: "kernel", about: "the kernel has no fault that the configuration provokes", judge: release},
	{name: "clock", about: "the clock is right", judge: clock},
	{name: "daemon", about: "svcproxy runs", judge: running},
	{name: "files", about: "what the files say is served", judge: files},
	{name: "forwarding", about: "the kernel forwards packets to backends and back", judge: forwarding},
	{name: "rp_filter", about: "the check of sources drops no packets", judge: rpFilter},
	{name: "arp", about: "this node answers ARP for the VIPs on its links", judge: arp},
	{name: "conntrack", about: "the connection tracker has room", judge: conntrack},
	{name: "ipvs-table", about: "the hash of IPVS fits the number of connections", judge: connTable},
	{name: "sysctls", about: "kernel parameters are as svcproxy sets them", judge: sysctls},
	{name: "mtu", about: "links take the packets of tunnels", judge: mtu},
	{name: "duplicate", about: "no other host has a VIP (--probe)", judge: duplicate},
	{name: "firewall", about: "no firewall drops what goes to VIPs", judge: firewall},
	{name: "back-ends", about: "no rules of ours are in the other back end of iptables", judge: backEnds},
	{name: "others", about: "no other program balances here", judge: others},
	{name: "routes", about: "each backend has a route and a neighbour", judge: routes},
	{name: "vips", about: "the VIPs and virtual servers are in the kernel", judge: vips},
	{name: "certificates", about: "the certificates of backends with TLS checks are valid", judge: certificates},
	{name: "drops", about: "no counter of dropped or refused packets moves", judge: drops},
	{name: "status", about: "svcproxy has no problem", judge: problems},
	{name: "packets", about: "a packet to each address reaches a backend (explain)", judge: packets, last: true},
}
