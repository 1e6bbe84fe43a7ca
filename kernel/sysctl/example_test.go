package sysctl_test

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel/sysctl"
)

// Save the value of a parameter before writing it. Writing the old value again leaves nothing to
// restore.
func ExampleSaved() {
	saved := sysctl.OpenSaved("", "") // in memory only
	saved.Save("net.ipv4.ip_forward", "0", "1")
	saved.Save("net.ipv4.vs.conntrack", "0", "1")
	saved.Flush()
	// Write the parameters, then:
	saved.Wrote("net.ipv4.ip_forward", "1")
	saved.Wrote("net.ipv4.vs.conntrack", "0")
	for _, p := range saved.All() {
		fmt.Printf("%s was %s, now %s\n", p.Name, p.Before, p.Ours)
	}
	// Output: net.ipv4.ip_forward was 0, now 1
}
