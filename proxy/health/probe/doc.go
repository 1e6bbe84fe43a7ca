// Package probe asks endpoints whether they serve. Prober sends one probe and returns its Result. Runner schedules
// the probes of many targets. Package proxy/health decides from the results which endpoints are up.
//
// Every probe is bounded: in time by its timeout, in memory by the limits beside the parsers, in number by the
// runner's Limits. A probe never follows a redirect, never uses a proxy and never decompresses. It ends a TCP
// connection by RST: the conntrack entry of a connection that was reset lives for 10 s, that of one that was closed
// for 120 s.
//
// A fault of this machine is no fault of an endpoint. No file descriptor, no source port, no permission, or a process
// that was stopped or got no processor: the result is void, and counts as nothing. Refusals and wrong answers count
// however late they are seen. Package health decides when void results make the checker blind; a Runner says only how
// far its probes are behind.
//
// Sockets are opened by system calls, not by net.Dialer. A dialer also asks for both addresses and sets options that
// a probe does not need. Measured with 50 probes at a time of a server in another process, on two busy cores of a
// virtual machine: 37 to 40 us of processor time and 4 allocations a probe, against 53 to 56 us and 26.
//
// Most tcp probes only connect. A Runner makes these connections one after the other on its own goroutine, uses their
// sockets again, and resets each connection in place of the handshake's last ACK. The server's program never sees
// the probe. Prober.Do completes the handshake first. If the server is on the same node, the three system calls of a
// probe follow each other: connect, connect again for the answer, and the reset.
//
// 25,000 tcp targets every 5 s take 9.0 to 9.4 % of one core, and 99 % of the probes start within 50 ms. That
// is 17.5 us for each of 5,263 probes a second, because jitter shortens intervals by a twentieth. Both ends
// of a connection count: the kernel handles the SYN, SYN-ACK and RST of a server on loopback inside these
// calls. Of 17.5 us the first connect takes 9.7, the second 0.4, the reset 3.7, the target's state 1.4, the
// queue 0.5, and Go's scheduler and the wake-ups 0.6. Compare such figures with what C takes at the same
// time, because the speed of the virtual machine varies:
//
//	14.6 us  one socket, one probe after the other: connect, poll, reset; congestion control reno as ours
//	15.3 us  105 sockets: all connect, one poll, all reset; here and below BBR, this machine's default
//	16.8 us  with sockets that are not bound to a port, so that the kernel searches for one
//	23.5 us  with a new socket for each probe
//	14.4 us  as the second row, by sockets bound to a source address
//
// The last one needs one route lookup, not two, and no move between the kernel's lists of bound addresses.
// But the kernel would no longer choose the source address. Empty chains of iptables take 0.8 us of all rows,
// and connection tracking, which this machine has no rule for, 3 us more: 25,000 targets then take 10.4 to
// 10.8 % of a core. 5,000 http targets every 2 s take 17 %.
//
// The sockets of a Runner share one source port for each address family, so that conntrack, where a rule asks for it,
// has one entry for a target: 25,000 for 25,000 targets every 5 s. With a port for each probe it had
// 50,000 live entries, and its count, which includes expired ones until the kernel collects them, went up and down
// between 53,000 and 88,000. A full table drops entries of a Runner's connections first, because they are not assured.
// A rule that exempts probes from conntrack would keep it emptier, but a firewall that lets in only established
// connections would then drop the answers.
//
// What the one port costs: no other program can listen at it. The kernel chooses it, and leaves out those in
// net.ipv4.ip_local_reserved_ports. If a probe's RST is lost, the server sends its SYN-ACK again after a
// second, and gets an RST then. A probe that comes before has its own SYN sent twice. With 1 % of all RSTs
// lost none of 125,000 probes every 5 s failed. A probe after a failure has another port: it does not meet
// what the last one left, and may take another path where routers choose one by ports. Probes with a mark, a
// source or an interface have other ports each time.
//
// A probe via a VIP makes its packets itself: see reach.
package probe
