// Package traffic tests the whole program on a real kernel: the svcproxy binary
// on the node of a lab, asked by a client on another host, by the node itself and
// by its own backends. A test says what happens to a packet, or what the kernel
// holds as ipvsadm, ipset, iptables and ip read it.
//
// It refuses to look inside: nothing here imports the program's packages.
package traffic
