// Package packet says what rules do with a packet: those of svcproxy, which Trace follows from hook to hook, and those
// of other programs, which Base.Judge asks one base chain at a time. Package explain shows both to operators, status
// and doctor what Firewall.Blocked finds, and tests check our rules by their effect on traffic.
//
// There is one matcher. A Rule is parsed once from the words of iptables-save; package iptables says rules of nftables
// in the same words. Rule.Match compares it with a View, which is a packet and which of its fields are not known, and
// answers yes, no or cannot tell. What is not known or not understood is never skipped, since a wrong guess would be
// believed. Several conditions together have the least of their answers.
//
// Judge collects every way in which a packet may leave a base chain: accepted, dropped, rejected or with another
// destination. If all are alike that is the answer, by the rule or the policy that decides. Else the answer is unclear,
// with the rules that it cannot judge. Of our own chains in it only what they accept counts; the rest is Trace's.
//
// Trace interprets the rules of State.Chains as xtables and ipset do. Where it cannot tell it ends with an error. It
// knows only what is in a State: no routes (only whether an address belongs to the node), reverse-path filters,
// listeners and existing connections. Persistence and schedulers choose among the real servers that it lists. Where our
// rules choose at random it follows each way, with its probability; lists of clients (xt_recent) are empty. A later
// packet of a connection goes where the rules would send a first one now. It follows requests. Replies pass no rule of
// nat: the connection tracker and IPVS undo for them what was done to the request.
package packet
