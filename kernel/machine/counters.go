package machine

import (
	"net"
	"strconv"
	"strings"
)

// Counters count packets that the kernel dropped or refused since boot.
type Counters struct {
	RPFilter  uint64 // by the check of sources, rp_filter
	Conntrack Conntrack
	Backlog   uint64 // because a processor's queue of packets was full; of the whole machine
	Refused   uint64 // answered by ICMP destination unreachable
}

func (r *reader) counters() Counters {
	c := Counters{
		RPFilter: r.pair("/proc/self/net/netstat", "TcpExt:", "IPReversePathFilter"),
		Refused:  r.pair("/proc/self/net/snmp", "Icmp:", "OutDestUnreachs"),
	}
	c.Conntrack = r.tracked()
	for _, line := range r.lines("/proc/self/net/softnet_stat") {
		if f := strings.Fields(line); len(f) > 1 {
			n, _ := strconv.ParseUint(f[1], 16, 64)
			c.Backlog += n
		}
	}
	return c
}

// pair returns a number of a file that has a line of names and a line of values for each
// group.
func (r *reader) pair(path, group, name string) uint64 {
	var names []string
	for _, line := range r.lines(path) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != group {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, word := range names {
			if word == name && i < len(f) {
				n, _ := strconv.ParseUint(f[i], 10, 64)
				return n
			}
		}
	}
	return 0
}

// Link is a network device.
type Link struct {
	Name         string
	MTU          int
	Up, Loopback bool
}

// links lists the devices of this process's network namespace; none below a root.
func (r *reader) links() (list []Link) {
	if r.o.Root != "" {
		return nil
	}
	all, err := net.Interfaces()
	if err != nil {
		r.lacks = append(r.lacks, Lack{"links", err.Error()})
	}
	for _, l := range all {
		list = append(list, Link{l.Name, l.MTU, l.Flags&net.FlagUp != 0, l.Flags&net.FlagLoopback != 0})
	}
	return list
}
