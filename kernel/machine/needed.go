package machine

import "slices"

// The modules that a first sync loads, with the default schedulers (Linux 6.1). The kernel finds the modules that
// these depend on itself, and loads what only some services need on demand: other schedulers, xt_recent.
//
// modules-load.d loads AtBoot, where every missing module is an error of the boot. The unit also loads ForTables, which
// a kernel without iptables lacks, and BackEnds. So does a start that may load modules itself (host.LoadModules).
var (
	forRules  = []string{"nf_conntrack", "nf_conntrack_netlink"}
	forIPVS   = []string{"ip_vs", "ip_vs_rr", "ip_vs_wrr", "dummy"}
	forChains = []string{"xt_addrtype", "xt_comment", "xt_conntrack", "xt_mark"}
	forSets   = []string{
		"xt_set", "ip_set", "ip_set_bitmap_port", "ip_set_hash_ip", "ip_set_hash_ipport", "ip_set_hash_ipportip",
		"ip_set_hash_ipportnet",
	}
	// BackEnds are modules that one back end of iptables needs and the other does not, and the module that has
	// MASQUERADE since Linux 5.2. An unprivileged process cannot load those of the legacy back end.
	BackEnds = []string{"xt_MASQUERADE", "ip_tables", "ip6_tables", "ipt_REJECT", "ip6t_REJECT", "nf_tables",
		"nft_chain_nat", "nft_compat"}
)

// AtBoot are the modules that mode ipvs needs whatever writes its rules.
var AtBoot = Needed("ipvs", true)

// Optional are modules of Needed without which services are served: only those with these schedulers need ip_vs_rr
// and ip_vs_wrr, and only the removal of tracked flows needs nf_conntrack_netlink.
var Optional = []string{"ip_vs_rr", "ip_vs_wrr", "nf_conntrack_netlink"}

// Needed lists the modules that a first sync of a mode loads, whatever iptables is used. native: nftables writes the
// rules, and neither iptables nor ipset.
func Needed(mode string, native bool) []string {
	switch {
	case mode == "userspace":
		return nil
	case mode == "iptables":
		return slices.Concat(forRules, forChains)
	case mode == "nftables":
		return slices.Concat([]string{"nf_tables", "dummy"}, forRules)
	case native:
		return slices.Concat(forIPVS, forRules)
	}
	return slices.Concat(forIPVS, forRules, forSets, forChains)
}
