// Package iptables is mode iptables: rules of table nat choose an endpoint for each new
// connection, and the connection tracker keeps it there.
//
// Names of chains, their hashes, comments and what the rules mean are those of kube-proxy's
// iptables mode, v1.34. Four things differ:
//
//   - The chain of a service port (KUBE-SVC, KUBE-SVL) translates addresses itself; there is
//     no chain for each endpoint. iptables-nft takes a time that grows with the square of
//     the number of chains: 132 s for 5,000 services of 5 endpoints in kube-proxy's layout,
//     1.3 s in this one. Config.EndpointChains writes kube-proxy's, for comparisons.
//   - Endpoints have weights: the probability of each rule is its share of the rest.
//   - VIPs are local, as in mode ipvs, so KUBE-VIP-FILTER refuses their other ports, and
//     node ports are served at the node's addresses one by one.
//   - One rule for all endpoints masquerades hairpin traffic, with a match of module xt_bpf.
//     It holds exactly for packets that are sent back to their sender. On a kernel without
//     xt_bpf, Config.HairpinRules has a rule for each endpoint instead. These also
//     masquerade what an endpoint sends to another one of its service.
//
// Schedulers do not apply: the choice is random. An endpoint that is down, drained or gone
// has no rule, and the connection tracker keeps its connections over TCP. With a drain timeout
// those to an endpoint that is gone are removed after it. A restart forgets running drains,
// since no rule remembers them: their connections go on until they end. Tracked UDP flows are
// removed with the rule. Session affinity is that of module xt_recent: it remembers the last
// 100 clients of each endpoint, or ip_list_tot. A kernel without xt_recent refuses the whole
// table nat for one such rule, so Config.NoAffinity leaves these rules out.
//
// The package is pure; plan.Diff finds the way from what the kernel has to the state that
// State returns.
package iptables
