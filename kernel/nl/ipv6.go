package nl

import "os"

// HasIPv6 reports whether the network namespace of the calling thread has IPv6.
func HasIPv6() bool {
	_, err := os.Stat("/proc/thread-self/net/if_inet6")
	return err == nil
}
