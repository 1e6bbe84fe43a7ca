package doctor

// check is one check. Judge returns what is wrong. svcproxy-troubleshooting(7) says what each name means.
type check struct {
	name  string
	judge func(*Facts) []Finding
	// last: it is asked only if nothing else was found. It finds what other findings have as
	// their consequence.
	last bool
}

// checks are in the order in which causes come before what follows from them.
var checks = []check{
	{name: "configuration", judge: configuration},
	{name: "unit", judge: unit},
	{name: "disk", judge: disk},
	{name: "folders", judge: folders},
	{name: "modules", judge: modules},
	{name: "kernel", judge: release},
	{name: "clock", judge: clock},
	{name: "daemon", judge: running},
	{name: "files", judge: files},
	{name: "forwarding", judge: forwarding},
	{name: "rp_filter", judge: rpFilter},
	{name: "arp", judge: arp},
	{name: "conntrack", judge: conntrack},
	{name: "ipvs-table", judge: connTable},
	{name: "sysctls", judge: sysctls},
	{name: "mtu", judge: mtu},
	{name: "duplicate", judge: duplicate},
	{name: "firewall", judge: firewall},
	{name: "back-ends", judge: backEnds},
	{name: "others", judge: others},
	{name: "routes", judge: routes},
	{name: "vips", judge: vips},
	{name: "certificates", judge: certificates},
	{name: "drops", judge: drops},
	{name: "status", judge: problems},
	{name: "packets", judge: packets, last: true},
}
