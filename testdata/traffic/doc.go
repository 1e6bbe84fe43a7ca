// Package traffic tests the whole program on a real kernel. The svcproxy binary
// runs on the node of a lab; a client on another host, the node itself and its
// backends send requests. A test says what happens to a packet, or what the
// kernel holds as ipvsadm, ipset, iptables and ip read it.
//
// It refuses to look inside: nothing here imports the program's packages.
package traffic
