// Package iptables reads and writes our iptables chains, and our jumps in the
// built-in ones, of tables nat and filter in both families.
//
// It runs iptables-save to read and one iptables-restore --noflush a family to
// write: the number of rules does not depend on the number of services, and
// each table changes in one step. Whether a reading is still true is asked of
// the kernel without running anything: by the nftables generation id, or by a
// hash of the legacy tables.
//
// It refuses to touch a chain or a rule that is not ours, to decide what a rule
// should say (package rules does), and to run a shell.
package iptables
