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
// the probe. Prober.Do completes the handshake first. Measured per probe at 5,000 a second: a Runner takes 19 us, and
// took 47 us with a goroutine for each. C that only makes the system calls takes 26 to 31 us with a new socket and the
// whole handshake, 20 to 23 us without the last ACK, and 15 to 16 us if it also uses sockets again. All of these
// include the server's part of a connect on loopback.
//
// BenchmarkLoad on the same machine: 25,000 tcp targets every 5 s took 9.2 to 9.5 % of one core and 8 MB, and 99 % of
// the probes started within 50 ms; 5,000 http targets every 2 s took 15 to 16 %. Compare such figures with what C takes
// at the same time, then 7.5 %. In another hour, when C took 11 to 12 %, the tcp targets took 12 to 15 %, and 25 % with a
// goroutine for each; the http targets took 19 to 21 %.
//
// The sockets of a Runner share one source port for each address family, so that conntrack, where a rule asks for it,
// has one entry for a target: 25,000 for 25,000 targets every 5 s. With a port for each probe it had
// 50,000 live entries, and its count, which includes expired ones until the kernel collects them, went up and down
// between 53,000 and 88,000. A full table drops entries of a Runner's connections first, because they are not assured.
// A rule that exempts probes from conntrack would keep it emptier, but a firewall that lets in only established
// connections would then drop the answers.
//
// What the one port costs: no other program can listen at it. The kernel chooses it, and leaves out those in
// net.ipv4.ip_local_reserved_ports. If a probe's RST is lost, the server sends its SYN-ACK again after a second, and gets
// an RST then. A probe that comes before has its own SYN sent twice. With 1 % of all RSTs lost none of 125,000 probes
// every 5 s failed. A probe after a failure has another port: it does not meet what the last one left, and may take
// another path where routers choose one by ports. Probes with a mark, a source or an interface have other ports each
// time.
package probe
