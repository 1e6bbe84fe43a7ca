package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePorts returns TCP ports of loopback that are free now, for programs that must be told where to listen. They are
// below the kernel's range for clients (net.ipv4.ip_local_port_range), so no connection takes one before the program does.
func FreePorts(n int) (ports []int, err error) {
	const first, end = 20000, 32768
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := first + rand.IntN(end-first)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close() // at the end: a port is not to be drawn twice
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("found %d free ports from %d to %d, want %d", len(ports), first, end-1, n)
}
