// Package rules says what the kernel must look like for a service table: State, for mode ipvs.
//
// It is policy and nothing else. State is pure: it reads no kernel, no clock and no file, takes the
// table as valid and merged (sources.Validate, sources.Merge), reports nothing to anybody, and gives
// the same bytes for the same input. How to get from what the kernel has to this state is kernel.Diff's
// business, and what an operator should be told of a table is sources.Validate's.
//
// Names, sets and chains are those of kube-proxy's IPVS mode, v1.34 to v1.36.
package rules
