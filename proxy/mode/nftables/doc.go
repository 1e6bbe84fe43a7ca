// Package nftables is mode nftables: maps of nftables choose an endpoint for each new connection, and the connection
// tracker keeps it there. The number of rules does not grow with services.
//
// Map FRONTENDS has each address, protocol and port that is served, with the chain of its class. That chain draws a
// slot, and map SLOTS has the endpoint of each slot. A weight is a number of slots. DESIGN.md has the classes, and in
// what the mode differs from mode iptables.
//
// The package is pure; plan.Diff finds the way from what the kernel has to the state that State returns.
package nftables
