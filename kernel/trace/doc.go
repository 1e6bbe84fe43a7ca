// Package trace says what happens to one packet on a node whose kernel is in a given
// State. It finds the real servers that may get the packet, whether it is masqueraded,
// or what refuses it, and the rules that decided. Package explain shows it to operators,
// and tests use it to check rules by their effect on traffic.
//
// It follows a packet through the hooks in the kernel's order and interprets the rules
// of State.Chains as xtables and ipset do. A match, option, target or set that it does
// not know is an error and never skipped, since a wrong guess would be believed.
//
// It knows only what is in a State. It does not know foreign rules and the policies of
// built-in chains (all of them accept), routes (only whether an address belongs to the
// node), reverse-path filters, listeners and existing connections. Persistence and
// schedulers choose among the real servers that it lists. Where rules choose at random it
// follows each way, with its probability; lists of clients (xt_recent) are empty. A later
// packet of a connection goes where the rules would send a first one now. It follows
// requests. Replies pass no rule of nat: the connection tracker and IPVS undo for them
// what was done to the request.
package trace
