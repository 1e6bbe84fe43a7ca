// Package ipvs writes and reads the kernel's IPVS tables: virtual servers, their real servers and
// the connections these have.
//
// Writing is generic netlink in batches, one send for up to 250 operations. Reading takes the
// cheapest way that tells everything: getsockopt(2) for IPv4, one call for all virtual servers
// and one for the real servers of each; for IPv6, which getsockopt does not know, netlink dumps, and
// /proc/net/ip_vs where that spares many of them.
//
// It decides nothing. It refuses virtual servers by firewall mark, which it counts and never
// touches, and it never flushes: a deleted real server stays in the kernel for two minutes, where
// every later addition has to walk past it.
//
// The wire formats are those of linux/ip_vs.h; where the kernel's behaviour is relied on, the
// comment names the function in net/netfilter/ipvs/ip_vs_ctl.c.
package ipvs
