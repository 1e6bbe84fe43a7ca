// Package verify cuts the kernel into shards, so that a periodic check of a large
// table is spread over its period instead of delaying a change.
package verify
