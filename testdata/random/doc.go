// Package random tests kernel/host and the rules with random tables. Each is
// applied to a real kernel that still serves the previous table, and read back
// with ipvsadm, ipset, iptables-save, ip and sysctl. What they print must be the
// state that the rules want, and after a cleanup what they printed before
// anything. One of five tables is served in mode iptables. There packets are sent
// too, and must go where kernel/trace says.
//
// It refuses to read the kernel with the program's own adapters: a fault that
// writer and reader share would go unseen.
package random
