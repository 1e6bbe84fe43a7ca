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
// BenchmarkLoad on the same machine: 25,000 tcp targets every 5 s took 22 to 25 % of one core and 11 MB, and 99 % of
// the probes started within 20 ms; 5,000 http targets every 2 s took 23 %. Three quarters of that time is spent in
// system calls, half of it in connect, which handles the server's side of the loopback too.
package probe
