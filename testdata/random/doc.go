// Package random tests kernel/host and the rules with random tables. Each is
// applied to a real kernel that still serves the previous table, and read back
// with ipvsadm, ipset, iptables-save, ip and sysctl. What they print must be the
// state that the rules want, and after a cleanup what they printed before
// anything. One of five tables is served in mode iptables. More than 5,000 packets
// are sent, of both families, with both back ends and in modes ipvs and iptables, to every kind of
// address, from the node, a host and a workload. They must go where kernel/packet says,
// and to the real server that a scheduler chooses by a hash according to proxy/explain.
// Another one of five is served in mode userspace. There ss lists the listeners, and a client
// must get the answers of endpoints that are wanted.
//
// It refuses to read the kernel with the program's own adapters: a fault that
// writer and reader share would go unseen.
package random
