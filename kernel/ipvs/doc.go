// Package ipvs writes and reads the kernel's IPVS tables: virtual servers, real servers and their
// connections.
//
// It writes in batches over generic netlink, with up to 250 operations in one send. It reads in the
// cheapest way that returns everything. For IPv4 that is getsockopt(2): one call for all virtual
// servers, and one for the real servers of each. getsockopt does not know IPv6, so that needs
// netlink dumps, or /proc/net/ip_vs if it saves many dumps.
//
// Virtual servers by firewall mark are as any other, see kernel.MarkKey. It never flushes the
// table: the kernel keeps a deleted real server for two minutes, and every later addition walks
// past it.
//
// The wire formats are those of linux/ip_vs.h. Where the code depends on the kernel's behaviour,
// the comment names the function in net/netfilter/ipvs/ip_vs_ctl.c.
package ipvs
