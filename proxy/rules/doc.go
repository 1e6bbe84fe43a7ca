// Package rules says what the kernel must look like for a service table: State, for mode ipvs; and what
// load balancers in front of the node are to be told of it: HealthChecks.
//
// It is policy and nothing else. Both are pure: they read no kernel, no clock and no file, take the
// table as valid and merged (sources.Validate, sources.Merge), report nothing to anybody, and give
// the same bytes for the same input. How to get from what the kernel has to this state is plan.Diff's
// business, and what an operator should be told of a table is sources.Validate's.
//
// Names, sets and chains are those of kube-proxy's IPVS mode, v1.34 to v1.36.
package rules
