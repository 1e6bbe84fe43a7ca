// Package nftables is mode nftables: maps of nftables choose an endpoint for each new connection, and the connection
// tracker keeps it there. The number of rules does not grow with services.
//
// Map FRONTENDS has each address, protocol and port that is served, with the chain of its class (KUBE-LB-M-3), which
// package nft writes as a number. That chain draws a slot, and map SLOTS has the endpoint of each slot. A weight is a
// number of slots. Node ports are frontends at the node's addresses. All but one rule is in table nat, so packets of
// known connections pass that one alone; it drops what does not fit its connection. The last rules of nat refuse what
// is not served at a VIP.
//
// Endpoints are chosen at random, as in kube-proxy: a counter (numgen inc) would be shared by all services with as many
// slots, and a client that asks two of them in turn would always meet the same endpoints. Session affinity and the
// schedulers sh and mh choose by a hash of the client's address, so that each node sends a client to the same endpoint,
// and so does a restart.
//
// Verdicts are those of mode iptables, but for these:
//
//   - Affinity has no timeout: a client stays as long as the endpoints do. When one goes, its own clients move, and
//     they are back when it is. All move when the 9th, 33rd or 257th endpoint comes, and some numbers of VIPs and ports
//     of one service make them move (sources.HashSlots).
//   - The shares of weights are rounded to 256 slots, or four for each endpoint.
//   - If this node's workloads cannot be recognised, all that the node itself sends to a cluster IP is masqueraded,
//     also from its other addresses.
//   - What source ranges keep out is dropped also where there is no endpoint, as kube-proxy's mode nftables does.
//   - A connection that a helper announced (RELATED) to a VIP is refused like any other that is not served.
//   - An endpoint on the node that listens on a node port of another service is reached.
//   - ACCEPT ends the way through our table alone, so nothing here opens health check node ports, or lets packets past
//     another program's FORWARD rules.
//   - Loopback addresses serve no node ports.
//   - The first packet of a connection of IPv6, or of the node's own, has the number of its slot as priority.
//
// kube-proxy's mode nftables has the same verdicts (TestVerdictsAreKubeProxys), but for affinity, and for what VIPs
// have in all modes: they answer pings, and refuse ports that are not served. kube-proxy refuses such ports of cluster
// IPs alone.
//
// The package is pure; plan.Diff finds the way from what the kernel has to the state that State returns.
package nftables
