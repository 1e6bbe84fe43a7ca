// Package relay serves virtual servers in userspace: it listens, chooses a real server, connects to
// it and copies. It is to mode userspace what kernel/ipvs is to mode ipvs. It takes the same ops on
// virtual and real servers, gives the same readings and errors, and meets the same contract (package
// kerneltest). So plans, drains, affinity, health checks and counters need no code of their own.
//
// # What differs from IPVS
//
// Real servers see this node as the client. The relay connects to them itself, and has no way to
// connect from an address that is another host's: answers to it would not come back here. An
// application that needs the address has to get it from its own protocol, as in X-Forwarded-For.
//
// A restart loses all connections, because this process is their data path. New ones are not lost if
// the listeners are handed over: File gives them to systemd's store of file descriptors, and the
// next process takes them as Options.Inherited. Clients that connect meanwhile wait in the kernel's
// queue. Affinity and flows over UDP are lost, too. With scheduler sh clients find the same real
// server again, since that choice depends on addresses only.
//
// The schedulers are rr, wrr, lc, wlc and sh. SCTP is refused. TCP has no count of packets.
//
// Connections to one real server are limited by the node's ephemeral ports, 28,232 by default
// (net.ipv4.ip_local_port_range).
//
// # Listening
//
// A virtual server listens on its own address. Where another program listens on all addresses, that
// is impossible (EADDRINUSE), and after the relay has begun, such a program cannot start. A portal
// is the way out: another port of the same address, to which rules redirect the packets. Reserve
// finds the virtual servers that need one, OpenPortal opens it.
//
// Ports below 1024 need CAP_NET_BIND_SERVICE or net.ipv4.ip_unprivileged_port_start.
//
// The address need not exist when the relay begins to listen, since plans add virtual servers before
// their addresses: a client never meets another program there.
//
// # TCP
//
// The client is connected as soon as the kernel has answered it, before there is a real server. If
// none can be reached, the client's connection is reset. Nothing is read from it until then, so the
// client does not notice how many real servers were tried. They have 250 ms, 500 ms, 1 s and 2 s to
// answer, each another one if there are enough. A real server that refuses costs no time.
//
// Data goes through splice(2) and is never copied here. A connection that is idle has two file
// descriptors and two goroutines, and neither pipe nor buffer. If one side ends, the other goes on,
// until five minutes have passed without data. A side that fails resets the other: an end would look
// like a complete transfer.
//
// # UDP
//
// A flow is what one client sends to one virtual server. It has a socket, connected to the real
// server, until Options.UDPIdle has passed without a datagram. kube-proxy's 250 ms are short: an
// answer of a name server that comes later is lost. The listener's own socket sends the answers, so
// they come from the address that was asked. If a real server refuses, the flow moves to another
// one, once, and the datagram is sent again.
//
// # Limits
//
// The relay keeps within RLIMIT_NOFILE: a TCP connection takes two file descriptors, a flow and a
// listener one each, and some are kept for the rest of the process. At the limit new TCP connections
// wait in the kernel's queue, and a new flow takes the place of the oldest one of its virtual
// server. A virtual server has at most 65,536 flows and remembers 262,144 clients with affinity.
//
// An idle TCP connection takes 9 KB of this process' memory, a flow 4 KB.
package relay
