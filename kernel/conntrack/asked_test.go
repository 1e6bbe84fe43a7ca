package conntrack

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// The kernel says which connections wait for a first answer, and leaves out all others when it is asked to.
func TestAsked(t *testing.T) {
	c := open(t, new(nl.Dialer))
	insert(t, 1, "tcp 10.96.0.10:80 10.2.0.1:8080", "-u", "SEEN_REPLY")
	insert(t, 2, "tcp [fd00::10]:80 [fd00:2::1]:8080", "-u", "SEEN_REPLY")
	insert(t, 3, "udp 10.96.0.10:53 10.2.0.1:53")
	kerneltest.Run(t, "conntrack", "-I", "-t", "600", "-p", "tcp", "-s", "192.0.2.9", "-d", "10.96.0.10",
		"--sport", "1004", "--dport", "80", "-r", "10.2.0.2", "-q", "192.0.2.9",
		"--reply-port-src", "8080", "--reply-port-dst", "1004", "--state", "SYN_SENT")
	const wait = "{tcp 10.96.0.10:80 10.2.0.2:8080 192.0.2.9:1004 false 600}"
	for _, row := range []struct {
		family  kernel.Family
		waiting bool
		want    []string
	}{
		{kernel.IPv4, true, []string{wait}},
		{kernel.IPv4, false, []string{"{tcp 10.96.0.10:80 10.2.0.1:8080 192.0.2.9:1001 true 600}", wait}},
		{kernel.IPv6, true, nil},
		{kernel.IPv6, false, []string{"{tcp [fd00::10]:80 [fd00:2::1]:8080 [2001:db8::9]:1002 true 600}"}},
	} {
		var got []string
		err := c.TCP(row.family, row.waiting, func(a kernel.Asked) {
			got = append(got, fmt.Sprintf("{%v %v %v %v %v %v}", a.Key.Virtual.Proto,
				netip.AddrPortFrom(a.Key.Virtual.Addr, a.Key.Virtual.Port), a.Key.Addr, a.Client, a.Answered, 10*math.Round(a.Left.Seconds()/10)))
		})
		slices.Sort(got)
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%v, waiting %t: %v, %v; want %v", row.family, row.waiting, got, err, row.want)
		}
	}
}
