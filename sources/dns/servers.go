package dns

import (
	"bytes"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	resolvConf = "/etc/resolv.conf"
	// mostServers is how many servers of resolv.conf count, as in the C library (MAXNS).
	mostServers = 3
	// rereadAfter is how often resolv.conf is read at most.
	rereadAfter = 5 * time.Second
)

// port53 is where servers are.
const port53 = 53

// parseResolvConf returns the name servers of a resolv.conf; without any it is that of this host, as in resolv.conf(5).
func parseResolvConf(text []byte) (servers []netip.AddrPort) {
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) < 2 || words[0] != "nameserver" || len(servers) == mostServers {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(a, port53))
		}
	}
	if servers == nil {
		servers = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port53)}
	}
	return servers
}

// hostServers are the servers of this host.
type hostServers struct {
	mu   sync.Mutex
	read time.Time
	list []netip.AddrPort
}

func (h *hostServers) servers() []netip.AddrPort {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.list == nil || now.Sub(h.read) > rereadAfter {
		text, err := os.ReadFile(resolvConf)
		if err == nil || h.list == nil {
			h.list = parseResolvConf(text)
		}
		h.read = now
	}
	return h.list
}
