// Package trace says what becomes of one packet on a node whose kernel is in a given State: which real
// servers it may be balanced to, whether it is masqueraded on the way, or what refuses it; and by which
// rules, one step at a time. Rules are asked about traffic with it, by tests and by people.
//
// It follows a packet through the hooks in the kernel's order and interprets the rules of State.Chains
// as xtables and ipset do. What it does not understand, a match, an option, a target, a set that is not
// there, is an error and never passed over: a guess here would be believed.
//
// It refuses to know what is not in a State: rules that are not ours and the policies of built-in chains
// (all of them let pass), other routes than whether an address is the node's own, reverse-path filters,
// listeners, and existing connections. Persistence and schedulers choose among the real servers it
// lists. It follows requests; the replies undo what was done to those, in the connection tracker and in
// IPVS, and pass no rule of nat.
package trace
