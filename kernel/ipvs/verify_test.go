package ipvs

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Every change by hand is found. A change of real servers is found by the shard that has their
// virtual server.
func TestVerify(t *testing.T) {
	table := open(t)
	ops := bigTable(20, 3, kernel.IPv6)
	apply(t, table, append(ops, bigTable(20, 3, kernel.IPv4)...)...)
	kerneltest.Run(t, "ipvsadm", "-A", "-f", "7")
	r := read(t, table)
	known := kernel.State{Virtuals: r.Virtuals, Reals: kernel.RealsOf(r.Reals)}
	four, six := r.Virtuals[3].Key, r.Virtuals[33].Key
	look := func() (virtuals, reals4, reals6 bool) {
		t.Helper()
		var err [3]error
		virtuals, err[0] = table.VerifyVirtuals(&known)
		reals4, err[1] = table.VerifyReals(&known, func(k kernel.VirtualKey) bool { return k == four })
		reals6, err[2] = table.VerifyReals(&known, func(k kernel.VirtualKey) bool { return k == six })
		for _, err := range err {
			if err != nil {
				t.Fatal(err)
			}
		}
		return virtuals, reals4, reals6
	}
	if v, r4, r6 := look(); !v || !r4 || !r6 {
		t.Fatal("nothing has changed", v, r4, r6)
	}
	if same, err := table.VerifyReals(&known, func(kernel.VirtualKey) bool { return true }); !same || err != nil {
		t.Fatal("nothing has changed", err)
	}
	real4 := r.Reals[slices.IndexFunc(r.Reals, func(r kernel.Real) bool { return r.Key.Virtual == four })].Key.Addr.String()
	real6 := r.Reals[slices.IndexFunc(r.Reals, func(r kernel.Real) bool { return r.Key.Virtual == six })].Key.Addr.String()
	for _, c := range []struct {
		do, undo                 string
		virtuals, reals4, reals6 bool
	}{
		{"-E -t 4 -s wlc", "-E -t 4 -s rr", false, true, true},
		{"-E -t 6 -s wlc", "-E -t 6 -s rr", false, true, true},
		{"-e -t 4 -r " + real4 + " -m -w 5", "-e -t 4 -r " + real4 + " -m -w 1", true, false, true},
		{"-e -t 6 -r " + real6 + " -m -w 5", "-e -t 6 -r " + real6 + " -m -w 1", true, true, false},
		{"-a -t 6 -r [fd99::1]:1 -m", "-d -t 6 -r [fd99::1]:1", true, true, false},
		{"-a -t 4 -r 10.9.9.9:1 -m", "-d -t 4 -r 10.9.9.9:1", false, false, true},
		// Real servers at IPv6 addresses of an IPv4 virtual server, which getsockopt omits.
		{"-a -t 4 -r [fd99::1]:80 -i", "-d -t 4 -r [fd99::1]:80", false, true, true},
		{"-A -u [fd99::2]:53", "-D -u [fd99::2]:53", false, true, true},
		{"-A -f 8", "-D -f 8", false, true, true},
	} {
		hand := func(command string) {
			command = strings.ReplaceAll(strings.ReplaceAll(command+" ", " 4 ", " "+four.AddrPort().String()+" "), " 6 ", " "+six.AddrPort().String()+" ")
			kerneltest.Run(t, "ipvsadm", strings.Fields(command)...)
		}
		hand(c.do)
		if v, r4, r6 := look(); v != c.virtuals || r4 != c.reals4 || r6 != c.reals6 {
			t.Errorf("%s: virtual servers unchanged %v, real servers %v and %v; want %v, %v and %v", c.do, v, r4, r6, c.virtuals, c.reals4, c.reals6)
		}
		hand(c.undo)
		if v, r4, r6 := look(); !v || !r4 || !r6 {
			t.Errorf("%s: undone, %v %v %v", c.do, v, r4, r6)
		}
	}
	kerneltest.Run(t, "ipvsadm", "-D", "-t", four.AddrPort().String())
	kerneltest.Run(t, "ipvsadm", "-D", "-t", six.AddrPort().String())
	if v, r4, r6 := look(); v || r4 || r6 {
		t.Errorf("virtual servers that are gone: %v %v %v", v, r4, r6)
	}
}
