package machine

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Conntrack is the state of connection tracking in this network namespace. Without it, it is zero.
type Conntrack struct {
	Entries, Max uint64
	// NoRoom counts packets that were dropped and entries that were evicted for want of room, and NoEntry packets that
	// were dropped because their connection could not be entered: another one has the same addresses and ports.
	NoRoom, NoEntry uint64
	// SynSent is how long a TCP connection is tracked after its last SYN, if nothing answers.
	SynSent time.Duration
}

// ReadConntrack reads the state of connection tracking.
func ReadConntrack() Conntrack { return new(reader).tracked() }

func (r *reader) tracked() (c Conntrack) {
	c.Entries, _ = strconv.ParseUint(r.text("/proc/sys/net/netfilter/nf_conntrack_count"), 10, 64)
	c.Max, _ = strconv.ParseUint(r.text("/proc/sys/net/netfilter/nf_conntrack_max"), 10, 64)
	seconds, _ := strconv.Atoi(r.text("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_syn_sent"))
	c.SynSent = time.Duration(seconds) * time.Second
	lines := r.lines("/proc/self/net/stat/nf_conntrack") // a line for each processor
	if len(lines) == 0 {
		return c
	}
	names := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		for i, f := range strings.Fields(line) {
			n, _ := strconv.ParseUint(f, 16, 64)
			switch {
			case i >= len(names):
			case names[i] == "drop" || names[i] == "early_drop":
				c.NoRoom += n
			case names[i] == "insert_failed":
				c.NoEntry += n
			}
		}
	}
	return c
}

const (
	// full is from which part of its limit on the connection tracker is reported, in percent.
	full = 90
	// clashes is how many packets a second may be dropped without a report where entries clash: two processors may enter
	// the same connection.
	clashes = 1
	// clashWindow is the shortest window that clashes are judged in.
	clashWindow = 5 * time.Second
)

// Trouble says why new connections are lost or about to be, and what to do. before is a reading of the given time ago.
// text is "" if all is well.
func (c Conntrack) Trouble(before Conntrack, window time.Duration) (text, hint string) {
	grew := func(now, then uint64) uint64 { return max(now, then) - then }
	noRoom, noEntry := grew(c.NoRoom, before.NoRoom), grew(c.NoEntry, before.NoEntry)
	hint = "sysctl -w net.netfilter.nf_conntrack_max=" + strconv.FormatUint(2*max(c.Max, 1), 10)
	switch {
	case c.Max == 0:
		return "", ""
	case c.Entries*100 >= c.Max*full:
		return fmt.Sprintf("the connection tracker is nearly full: %d of %d entries", c.Entries, c.Max), hint
	case noRoom > 0 && c.Entries*2 >= c.Max: // below, a packet was dropped where entries clash
		return fmt.Sprintf("the connection tracker had no room %s in %v (%d of %d entries): "+
			"it dropped packets or evicted entries", times(noRoom), window, c.Entries, c.Max), hint
	case window >= clashWindow && float64(max(noRoom, noEntry)) > clashes*window.Seconds():
		return fmt.Sprintf("the connection tracker dropped packets %s in %v, as their connections could not be entered",
				times(max(noRoom, noEntry)), window),
			"conntrack -S; masqueraded clients may use up the ports of this node's address"
	}
	return "", ""
}

func times(n uint64) string {
	if n == 1 {
		return "1 time"
	}
	return strconv.FormatUint(n, 10) + " times"
}
