// Package verify compares two readings of the kernel, or a shard of them: a periodic
// check of a large table is cut into shards, so that no single one delays a change.
package verify
