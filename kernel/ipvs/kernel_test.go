package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// open opens the tables of a new namespace.
func open(t testing.TB) *Table {
	t.Helper()
	kerneltest.Need(t, kerneltest.IPVS)
	kerneltest.NewNamespace(t)
	table, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

func apply(t testing.TB, table *Table, ops ...kernel.Op) {
	t.Helper()
	if errs := table.Apply(ops); errs != nil {
		t.Fatal(kernel.Failures(ops, errs))
	}
}

func read(t testing.TB, table *Table) Reading {
	t.Helper()
	r, err := table.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func virtual(proto kernel.Proto, addr, scheduler string) kernel.Virtual {
	k := kernel.VirtualAt(netip.MustParseAddrPort(addr), proto)
	return kernel.Virtual{Key: k, Scheduler: scheduler, Netmask: uint8(k.Family().Bits())}
}

func persistent(v kernel.Virtual, timeout uint32, netmask uint8) kernel.Virtual {
	v.Flags, v.Timeout, v.Netmask = v.Flags|kernel.FlagPersistent, timeout, netmask
	return v
}

func target(v kernel.Virtual, addr string, weight uint32) kernel.Real {
	return kernel.Real{Key: kernel.RealKey{Virtual: v.Key, Addr: netip.MustParseAddrPort(addr)}, Weight: weight}
}

func add(o kernel.Object) kernel.Op    { return kernel.Op{Verb: kernel.Add, Object: o} }
func change(o kernel.Object) kernel.Op { return kernel.Op{Verb: kernel.Change, Object: o} }
func remove(o kernel.Object) kernel.Op { return kernel.Op{Verb: kernel.Remove, Object: o} }

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// mixed returns objects of every kind, sorted.
func mixed() (virtuals []kernel.Virtual, reals []kernel.Real) {
	virtuals = []kernel.Virtual{
		virtual(kernel.TCP, "10.96.0.10:53", "wrr"),
		persistent(virtual(kernel.TCP, "10.96.0.10:443", "sh"), 360, 24),
		virtual(kernel.UDP, "10.96.0.10:53", "rr"),
		virtual(kernel.SCTP, "10.96.0.11:7", "lc"),
		virtual(kernel.TCP, "[fd00::10]:53", "wrr"),
		persistent(virtual(kernel.TCP, "[fd00::10]:443", "rr"), 10800, 64),
		virtual(kernel.UDP, "[fd00::10]:53", "mh"),
	}
	virtuals[2].Flags |= kernel.FlagOnePacket
	virtuals[6].Flags |= kernel.FlagSched2
	for i, v := range virtuals {
		form := "10.0.0.%d:80"
		if v.Key.Family() == kernel.IPv6 {
			form = "[fd01::%d]:80"
		}
		for n := range i {
			reals = append(reals, target(v, fmt.Sprintf(form, n+1), uint32(n)))
		}
	}
	return virtuals, reals
}

func additions(virtuals []kernel.Virtual, reals []kernel.Real) (ops []kernel.Op) {
	for _, v := range virtuals {
		ops = append(ops, add(v))
	}
	for _, r := range reals {
		ops = append(ops, add(r))
	}
	return ops
}

func TestKernelRoundTrip(t *testing.T) {
	table := open(t)
	virtuals, reals := mixed()
	before := table.Stats()
	apply(t, table, additions(virtuals, reals)...)
	if s := table.Stats(); s.Sends-before.Sends != 2 || s.Receives-before.Receives != 2 {
		t.Errorf("%d sends and %d receives, want 2 and 2", s.Sends-before.Sends, s.Receives-before.Receives)
	}
	r := read(t, table)
	equal(t, "virtuals", r.Virtuals, virtuals)
	equal(t, "reals", r.Reals, reals)
	equal(t, "connections", r.Conns, make([]kernel.Conns, len(reals)))

	some, conns, err := table.Reals([]kernel.VirtualKey{virtuals[3].Key, virtual(kernel.TCP, "1.2.3.4:5", "").Key, virtuals[5].Key})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "reals of two", some, append(slices.Clone(reals[3:6]), reals[10:15]...))
	if len(conns) != len(some) {
		t.Errorf("%d connections of %d reals", len(conns), len(some))
	}
}

func TestKernelChangeAndRemove(t *testing.T) {
	table := open(t)
	virtuals, reals := mixed()
	apply(t, table, additions(virtuals, reals)...)

	virtuals[0] = persistent(virtual(kernel.TCP, "10.96.0.10:53", "rr"), 60, 32)
	virtuals[1] = virtual(kernel.TCP, "10.96.0.10:443", "sh") // no longer persistent
	virtuals[4].Scheduler = "mh"
	reals[3].Weight = 70000 // more than 16 bits
	before := table.Stats()
	apply(t, table, change(virtuals[0]), change(virtuals[1]), change(virtuals[4]), change(reals[3]),
		remove(reals[4]), remove(virtuals[6]))
	if s := table.Stats(); s.Sends-before.Sends != 1 || s.Receives-before.Receives != 1 || s.Queries != before.Queries {
		t.Errorf("six changes cost %+v after %+v, want one send and one receive", s, before)
	}
	r := read(t, table)
	equal(t, "virtuals", r.Virtuals, virtuals[:6])
	want := slices.Delete(slices.Clone(reals[:15]), 4, 5)
	equal(t, "reals", r.Reals, want)
}

// Many IPv6 virtual servers are read from /proc. Those with persistence still take a dump each.
func TestKernelManyIPv6(t *testing.T) {
	table := open(t)
	ops := bigTable(300, 3, kernel.IPv6)
	var virtuals []kernel.Virtual
	var reals []kernel.Real
	for i := range ops {
		switch o := ops[i].Object.(type) {
		case kernel.Virtual:
			if i%100 == 0 {
				o = persistent(o, 600, 128)
				ops[i].Object = o
			}
			virtuals = append(virtuals, o)
		case kernel.Real:
			reals = append(reals, o)
		}
	}
	apply(t, table, ops...)
	before := table.Stats()
	r := read(t, table)
	for range 20 {
		if len(r.Virtuals) == len(virtuals) {
			break
		}
		// A long dump goes on at a position that counts the virtual servers of all namespaces. It
		// skips one of ours if the kernel just removes those of an earlier test's namespace.
		t.Logf("%d virtual servers of %d", len(r.Virtuals), len(virtuals))
		time.Sleep(100 * time.Millisecond)
		r = read(t, table)
	}
	equal(t, "virtuals", r.Virtuals, virtuals)
	equal(t, "reals", r.Reals, reals)
	// There are 1+3 dumps, not one for each, unless another namespace has virtual servers, perhaps
	// that of an earlier test.
	t.Logf("%d dumps", table.Stats().Queries-before.Queries)
}

func TestKernelErrors(t *testing.T) {
	table := open(t)
	here := virtual(kernel.TCP, "10.96.0.1:80", "rr")
	gone := virtual(kernel.TCP, "10.96.0.2:80", "rr")
	odd := virtual(kernel.TCP, "10.96.0.3:80", "odd")
	there := virtual(kernel.TCP, "10.96.0.5:80", "rr")
	apply(t, table, add(here), add(there), add(target(here, "10.0.0.1:80", 1)))
	ops := []kernel.Op{
		add(there),
		add(target(here, "10.0.0.1:80", 1)),
		change(gone),
		add(target(gone, "10.0.0.1:80", 1)),
		change(target(here, "10.0.0.2:80", 1)),
		remove(target(here, "10.0.0.2:80", 1)),
		add(odd),
		add(target(odd, "10.0.0.1:80", 1)),
		add(target(odd, "10.0.0.2:80", 1)),
		change(target(here, "10.0.0.1:80", 1<<31)),
		add(kernel.Link{Name: "kube-ipvs0"}),
		remove(gone),
		add(virtual(kernel.TCP, "10.96.0.4:80", "rr")),
	}
	errs := table.Apply(ops)
	for i, want := range []string{
		"there is such a virtual server already (file exists)",
		"there is such a real server already (file exists)",
		"no such virtual server (no such process)",
		"no such virtual server (no such process)",
		"no such real server (no such file or directory)",
		"no such real server (no such file or directory)",
		`unknown scheduler "odd": the kernel has no module ip_vs_odd (no such file or directory)`,
		"not tried: its virtual server could not be added",
		"not tried: its virtual server could not be added",
		"the largest weight is 2147483647 (numerical result out of range)",
		"ipvs does not handle objects of kind link",
		"no such virtual server (no such process)",
		"",
	} {
		got := ""
		if errs[i] != nil {
			got = errs[i].Error()
		}
		if got != want {
			t.Errorf("%v: %q, want %q", ops[i], got, want)
		}
	}
	if !errors.Is(errs[0], unix.EEXIST) || !errors.Is(errs[6], ErrScheduler) {
		t.Error("errors.Is does not see through")
	}
	if r := read(t, table); len(r.Virtuals) != 3 || len(r.Reals) != 1 {
		t.Errorf("left %v %v", r.Virtuals, r.Reals)
	}
}

// A virtual server that another program added since the last reading gets none of our real servers.
func TestKernelForeignVirtualIsLeftAlone(t *testing.T) {
	table := open(t)
	foreign := virtual(kernel.TCP, "10.96.0.1:80", "rr")
	apply(t, table, add(foreign))
	ours := virtual(kernel.TCP, "10.96.0.1:80", "mh")
	errs := table.Apply([]kernel.Op{add(ours), add(target(ours, "10.0.0.1:80", 1))})
	if len(errs) != 2 || errs[0] == nil || errs[1] == nil {
		t.Errorf("errors %v, want two", errs)
	}
	r := read(t, table)
	equal(t, "virtuals", r.Virtuals, []kernel.Virtual{foreign})
	equal(t, "reals", r.Reals, nil)
}

func TestKernelMaglev(t *testing.T) {
	table := open(t)
	v := virtual(kernel.TCP, "10.96.0.1:80", "mh")
	v.Flags = kernel.FlagSched2
	ops := []kernel.Op{add(v)}
	for i := range 100 {
		ops = append(ops, add(target(v, fmt.Sprintf("10.0.0.%d:80", i+1), 1)))
	}
	apply(t, table, ops...)
	r := read(t, table)
	equal(t, "virtuals", r.Virtuals, []kernel.Virtual{v})
	if len(r.Reals) != 100 {
		t.Errorf("%d real servers, want 100", len(r.Reals))
	}
}

// With rr first, 2,000 real servers are there and the scheduler is the wanted one. mh takes no more than its table has
// entries; the virtual server then keeps rr, and so a refused change to mh keeps the scheduler.
func TestKernelBigService(t *testing.T) {
	for _, c := range []struct {
		scheduler, then string
		reals           int
		refused         bool
	}{{"wrr", "wrr", 2000, false}, {"mh", "mh", 2000, false}, {"mh", "rr", 4500, true}} {
		t.Run(fmt.Sprintf("%s_%d", c.scheduler, c.reals), func(t *testing.T) {
			table := open(t)
			ops := bigTable(1, c.reals, kernel.IPv4)
			v := ops[0].Object.(kernel.Virtual)
			v.Scheduler = c.scheduler
			ops[0].Object = v
			errs := table.Apply(ops)
			if (errs != nil) != c.refused {
				t.Error(kernel.Failures(ops, errs))
			}
			has := v
			has.Scheduler = c.then
			if c.refused {
				retry := []kernel.Op{{Verb: kernel.Change, Object: v, Was: has}}
				if errs := table.Apply(retry); errs == nil || !errors.Is(errs[0], unix.EINVAL) {
					t.Errorf("a change to %s: %v", c.scheduler, errs)
				}
			}
			r := read(t, table)
			equal(t, "virtuals", r.Virtuals, []kernel.Virtual{has})
			if len(r.Reals) != c.reals {
				t.Errorf("%d real servers, want %d", len(r.Reals), c.reals)
			}
		})
	}
}

func TestKernelForeign(t *testing.T) {
	table := open(t)
	kerneltest.Run(t, "ipvsadm", "-A", "-f", "7", "-s", "rr")
	kerneltest.Run(t, "ipvsadm", "-A", "-f", "8", "-6", "-s", "rr")
	kerneltest.Run(t, "ipvsadm", "-a", "-f", "7", "-r", "10.0.0.1", "-m")
	kerneltest.Run(t, "ipvsadm", "-A", "-t", "10.96.0.1:80", "-s", "wlc", "-p", "300")
	kerneltest.Run(t, "ipvsadm", "-a", "-t", "10.96.0.1:80", "-r", "10.0.0.1:80", "-g", "-w", "3")
	kerneltest.Run(t, "ipvsadm", "-a", "-t", "10.96.0.1:80", "-r", "10.0.0.2:80", "-i", "-w", "4")
	kerneltest.Run(t, "ipvsadm", "-a", "-t", "10.96.0.1:80", "-r", "[fd01::1]:80", "-i", "-w", "5")
	r := read(t, table)
	seven, eight := virtual(kernel.TCP, "0.0.0.7:0", "rr"), virtual(kernel.TCP, "[::8]:0", "rr")
	seven.Key, eight.Key = kernel.MarkKey(kernel.IPv4, 7), kernel.MarkKey(kernel.IPv6, 8)
	v := persistent(virtual(kernel.TCP, "10.96.0.1:80", "wlc"), 300, 32)
	equal(t, "virtuals", r.Virtuals, []kernel.Virtual{seven, v, eight})
	want := []kernel.Real{target(seven, "10.0.0.1:0", 1), target(v, "10.0.0.1:80", 3), target(v, "10.0.0.2:80", 4), target(v, "[fd01::1]:80", 5)}
	want[1].Forward, want[2].Forward, want[3].Forward = kernel.Direct, kernel.Tunnel, kernel.Tunnel
	equal(t, "reals", r.Reals, want)
}

func TestKernelSeenByIpvsadm(t *testing.T) {
	table := open(t)
	virtuals, reals := mixed()
	apply(t, table, additions(virtuals, reals)...)
	out := kerneltest.Run(t, "ipvsadm", "-S", "-n")
	for _, want := range []string{
		"-A -t 10.96.0.10:443 -s sh -p 360 -M 255.255.255.0",
		"-A -u 10.96.0.10:53 -s rr -o",
		"-A -u [fd00::10]:53 -s mh -b mh-port",
		"-A -t [fd00::10]:443 -s rr -p 10800 -M 64",
		"-a -t [fd00::10]:53 -r [fd01::4]:80 -m -w 3",
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("ipvsadm does not print %q:\n%s", want, out)
		}
	}
}

// Thresholds are not in /proc/net/ip_vs. They are read where this Table set them, where they were there before it, and
// once VerifyReals met those that another program set.
func TestKernelThresholds(t *testing.T) {
	table := open(t)
	ops := bigTable(20, 1, kernel.IPv6) // many, so that /proc is read
	apply(t, table, ops...)
	read(t, table)
	limited := ops[len(ops)-1].Object.(kernel.Real)
	limited.Upper, limited.Lower = 100, 80
	apply(t, table, change(limited))
	later, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	for _, each := range []*Table{table, later} {
		if r := read(t, each); !slices.Contains(r.Reals, limited) {
			t.Errorf("no %v in\n%v", limited, r.Reals)
		}
	}

	known := kernel.State{}
	r := read(t, table)
	known.Virtuals, known.Reals = r.Virtuals, kernel.RealsOf(r.Reals)
	other := r.Reals[0]
	kerneltest.Run(t, "ipvsadm", "-e", "-t", other.Key.Virtual.AddrPort().String(), "-r", other.Key.Addr.String(), "-m", "-w", fmt.Sprint(other.Weight), "-x", "7")
	same, err := table.VerifyReals(&known, func(kernel.VirtualKey) bool { return true })
	if err != nil || same {
		t.Errorf("VerifyReals: %t, %v", same, err)
	}
	other.Upper = 7
	if r := read(t, table); !slices.Contains(r.Reals, other) || !slices.Contains(r.Reals, limited) {
		t.Errorf("no %v or no %v in\n%v", other, limited, r.Reals)
	}
}

// The tunnels of real servers, as ipvsadm makes and shows them, of IPv4 by getsockopt and of IPv6 by /proc.
func TestKernelTunnels(t *testing.T) {
	table := open(t)
	ops := bigTable(20, 1, kernel.IPv6) // many, so that /proc is read
	four, six := virtual(kernel.TCP, "10.96.0.1:80", "rr"), virtual(kernel.TCP, "[fd00::1:1]:80", "rr")
	ways := []kernel.Real{
		{Forward: kernel.Direct},
		{Forward: kernel.Tunnel},
		{Forward: kernel.Tunnel, Tunnel: kernel.GUE, TunnelPort: 6080},
		{Forward: kernel.Tunnel, Tunnel: kernel.GRE},
		{Forward: kernel.Tunnel, Tunnel: kernel.GUE | kernel.TunnelCsum, TunnelPort: 6081},
	}
	var want []kernel.Real
	for _, v := range []kernel.Virtual{four, six} {
		ops = append(ops, add(v))
		for i, r := range ways {
			addr := fmt.Sprintf("10.0.0.%d:80", i+1)
			if v.Key.Family() == kernel.IPv6 {
				addr = fmt.Sprintf("[fd01::%d]:80", i+1)
			}
			r.Key, r.Weight = target(v, addr, 1).Key, 1
			want, ops = append(want, r), append(ops, add(r))
		}
	}
	apply(t, table, ops...)
	reals := slices.DeleteFunc(read(t, table).Reals, func(r kernel.Real) bool {
		return r.Key.Virtual != four.Key && r.Key.Virtual != six.Key
	})
	equal(t, "reals", reals, want)

	out := kerneltest.Run(t, "ipvsadm", "-Sn")
	for _, want := range []string{
		"-a -t 10.96.0.1:80 -r 10.0.0.1:80 -g -w 1",
		"-a -t 10.96.0.1:80 -r 10.0.0.2:80 -i -w 1 --tun-type ipip",
		"-a -t 10.96.0.1:80 -r 10.0.0.3:80 -i -w 1 --tun-type gue --tun-port 6080 --tun-nocsum",
		"-a -t [fd00::1:1]:80 -r [fd01::4]:80 -i -w 1 --tun-type gre --tun-nocsum",
		"-a -t [fd00::1:1]:80 -r [fd01::5]:80 -i -w 1 --tun-type gue --tun-port 6081 --tun-csum",
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("ipvsadm does not print %q:\n%s", want, out)
		}
	}
	saved, err := kernel.ParseObserved(out)
	if err != nil {
		t.Fatal(err)
	}
	saved.Sort()
	saved.Reals = saved.Reals.Where(func(r *kernel.Real) bool { return r.Forward != kernel.Masquerade })
	equal(t, "reals that ipvsadm saved", saved.Reals.Slice(), want)

	kerneltest.Run(t, "ipvsadm", "-e", "-t", "10.96.0.1:80", "-r", "10.0.0.1:80", "-i", "--tun-type", "gue", "--tun-port", "6082", "-w", "1")
	want[0].Forward, want[0].Tunnel, want[0].TunnelPort = kernel.Tunnel, kernel.GUE, 6082
	kerneltest.Run(t, "ipvsadm", "-e", "-t", "10.96.0.1:80", "-r", "10.0.0.3:80", "-m", "-w", "1")
	want[2].Forward, want[2].Tunnel, want[2].TunnelPort = kernel.Masquerade, 0, 0
	reals, _, err = table.Reals([]kernel.VirtualKey{four.Key})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "reals that ipvsadm changed", reals, want[:5])
}

func TestKernelScheduler(t *testing.T) {
	table := open(t)
	for _, name := range []string{"rr", "wrr", "mh", "dh"} {
		if err := table.Scheduler(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := table.Scheduler("bogus")
	if !errors.Is(err, ErrScheduler) || !strings.Contains(err.Error(), "ip_vs_bogus") {
		t.Errorf("bogus: %v", err)
	}
	if r := read(t, table); len(r.Virtuals) != 0 {
		t.Errorf("asking left %v", r.Virtuals)
	}
}

// Without the check this deadlocks for ever, together with the end of the namespace and modprobe.
func TestKernelSchedulerThatMustBeLoadedBefore(t *testing.T) {
	table := open(t)
	v := virtual(kernel.TCP, "10.96.0.1:80", "lblcr")
	if !loaded("lblcr") {
		if err := table.Scheduler("lblcr"); !errors.Is(err, ErrScheduler) {
			t.Errorf("not loaded: %v, want %v", err, ErrScheduler)
		}
		errs := table.Apply([]kernel.Op{add(v), add(target(v, "10.0.0.1:80", 1))})
		if len(errs) != 2 || !errors.Is(errs[0], ErrScheduler) || errs[1] == nil {
			t.Errorf("not loaded: %v, want two errors", errs)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("loading it is root's")
	}
	kerneltest.Run(t, "modprobe", "ip_vs_lblcr")
	if err := table.Scheduler("lblcr"); err != nil {
		t.Error(err)
	}
	apply(t, table, add(v), add(target(v, "10.0.0.1:80", 1)))
}

func TestKernelWithoutIPVS(t *testing.T) {
	if _, err := nl.Family(familyName); err == nil {
		t.Log("this kernel has IPVS")
		return
	}
	if _, err := Open(nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("opening: %v, want %v", err, ErrUnavailable)
	}
	// moby/ipvs by itself would report success here.
	if err := new(Table).SetTimeouts(kernel.LinuxTimeouts); !errors.Is(err, ErrUnavailable) {
		t.Errorf("setting timeouts: %v, want %v", err, ErrUnavailable)
	}
}

// The kernel is asked for GUE by a real server that is read back and removed. A kernel without it refuses real servers
// by GUE, and no others.
func TestKernelIsAskedForGUE(t *testing.T) {
	table := open(t)
	if err := table.tryGUE(); err != nil || table.gue != gueThere {
		t.Errorf("GUE: %v, %v", table.gue, err)
	}
	if r := read(t, table); len(r.Virtuals) != 0 {
		t.Errorf("left behind: %v", r.Virtuals)
	}
	table.gue = gueMissing
	v := virtual(kernel.TCP, "10.96.0.9:80", "rr")
	by, other := target(v, "10.2.0.1:80", 1), target(v, "10.2.0.2:80", 1)
	by.Forward, by.Tunnel, by.TunnelPort = kernel.Tunnel, kernel.GUE, 6080
	other.Forward = kernel.Tunnel
	errs := table.Apply([]kernel.Op{add(v), add(by), add(other)})
	var missing *kernel.MissingError
	if len(errs) != 3 || errs[0] != nil || !errors.As(errs[1], &missing) || errs[2] != nil {
		t.Errorf("errors %v", errs)
	}
	equal(t, "reals", read(t, table).Reals, []kernel.Real{other})
}
