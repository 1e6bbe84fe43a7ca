// Package iptables reads and writes our chains in the tables nat and filter of both families, and
// our jumps in the built-in chains.
//
// It reads with iptables-save and writes with one iptables-restore --noflush for each family. Each
// table changes in one step. In mode ipvs the number of rules does not depend on the number of
// services. In mode iptables it does: 5,000 services with 5 endpoints are 35,000 rules, and a change of
// one endpoint writes one of 5,020 chains. To learn whether a reading is still valid it runs no tool:
// it compares the nftables generation id, or a hash of the legacy tables.
//
// A table with a rule that only nft can express is hidden from iptables-save. Its chains are then taken as
// the last reading and the writes since left them: see hides.
//
// It does not change chains and rules of other programs, does not decide what a rule says (package
// proxy/mode does), and never runs a shell.
package iptables
