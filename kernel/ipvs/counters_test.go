package ipvs

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// openCounters opens the counters of the test's current namespace.
func openCounters(t testing.TB) *Counters {
	t.Helper()
	c, err := OpenCounters(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func count(t testing.TB, c *Counters) kernel.Counters {
	t.Helper()
	r, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Under traffic the counters equal those of ipvsadm, to the byte.
func TestKernelCounters(t *testing.T) {
	table := open(t)
	for _, a := range []string{"10.96.0.1/32", "10.2.0.1/32", "fd00:96::1/128", "fd00:2::1/128"} {
		kerneltest.Run(t, "ip", "addr", "add", a, "dev", "lo", "nodad")
	}
	web, six, idle := virtual(kernel.TCP, "10.96.0.1:80", "rr"), virtual(kernel.TCP, "[fd00:96::1]:80", "rr"), virtual(kernel.UDP, "10.96.0.1:53", "rr")
	apply(t, table, additions([]kernel.Virtual{web, six, idle},
		[]kernel.Real{target(web, "10.2.0.1:8080", 3), target(six, "[fd00:2::1]:8080", 1), target(idle, "10.2.0.1:53", 0)})...)
	kerneltest.Run(t, "ipvsadm", "-A", "-f", "7", "-s", "rr")
	c := openCounters(t)
	if r := count(t, c); r.Total != (kernel.Traffic{}) || len(r.Virtuals) != 4 {
		t.Fatalf("before any traffic: %+v", r)
	}

	for _, addr := range []string{"10.2.0.1:8080", "[fd00:2::1]:8080"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go greet(l)
	}
	for i, vip := range []string{"10.96.0.1:80", "10.96.0.1:80", "[fd00:96::1]:80"} {
		conn, err := net.DialTimeout("tcp", vip, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			conn.Close() // the others stay open
		}
	}

	// The kernel adds up the counters of its processors every two seconds.
	var r kernel.Counters
	var said map[string]kernel.Traffic
	for deadline, tick := time.Now().Add(30*time.Second), time.Tick(100*time.Millisecond); ; <-tick {
		r, said = count(t, c), ipvsadmStats(t)
		quiet := fmt.Sprint(r) == fmt.Sprint(count(t, c))
		if quiet && r.Total.Conns == 3 && r.Reals[0].Active == 1 && r.Reals[0].Inactive == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the counters do not come to rest: %+v", r)
		}
	}
	for _, v := range r.Virtuals {
		if got := v.Traffic; got != said[v.Key.AddrPort().String()] {
			t.Errorf("%v: %+v, ipvsadm has %+v", v.Key, got, said[v.Key.AddrPort().String()])
		}
	}
	byKey := map[kernel.VirtualKey]kernel.Traffic{}
	for _, v := range r.Virtuals {
		byKey[v.Key] = v.Traffic
	}
	if byKey[web.Key].Conns != 2 || byKey[six.Key].Conns != 1 || byKey[idle.Key] != (kernel.Traffic{}) || byKey[web.Key].InBytes == 0 || byKey[web.Key].OutBytes == 0 {
		t.Errorf("traffic %+v", r.Virtuals)
	}
	if sum := byKey[web.Key].InBytes + byKey[six.Key].InBytes; r.Total.Conns != 3 || r.Total.InBytes != sum {
		t.Errorf("total %+v, the virtual servers have %d bytes", r.Total, sum)
	}
	want := []kernel.RealCounters{
		{Key: target(web, "10.2.0.1:8080", 0).Key, Weight: 3, Active: 1, Inactive: 1},
		{Key: target(idle, "10.2.0.1:53", 0).Key},
		{Key: target(six, "[fd00:2::1]:8080", 0).Key, Weight: 1, Active: 1},
	}
	equal(t, "real servers", r.Reals, want)

	// Each virtual server with traffic has one real server here, so both have the same counters.
	reals, err := c.Reals([]kernel.VirtualKey{six.Key, virtual(kernel.TCP, "10.96.0.9:80", "rr").Key, web.Key})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "traffic of real servers", reals, []kernel.RealTraffic{
		{Key: target(six, "[fd00:2::1]:8080", 0).Key, Traffic: byKey[six.Key]},
		{Key: target(web, "10.2.0.1:8080", 0).Key, Traffic: byKey[web.Key]},
	})
}

// greet sends a line to each client and waits until it disconnects.
func greet(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			fmt.Fprintln(conn, "hello")
			conn.Read(make([]byte, 1))
		}()
	}
}

// ipvsadmStats returns the exact counters from ipvsadm, by address and port.
func ipvsadmStats(t *testing.T) map[string]kernel.Traffic {
	t.Helper()
	stats := map[string]kernel.Traffic{}
	for line := range strings.Lines(kerneltest.Run(t, "ipvsadm", "-Ln", "--stats", "--exact")) {
		f := strings.Fields(line)
		if len(f) != 7 || f[0] != "TCP" && f[0] != "UDP" {
			continue
		}
		var n [5]uint64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseUint(f[2+i], 10, 64); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		stats[f[1]] = kernel.Traffic{Conns: n[0], InPackets: n[1], OutPackets: n[2], InBytes: n[3], OutBytes: n[4]}
	}
	return stats
}

// A reading is one dump at any size. The number of virtual servers that had to be read one by one
// is logged only. It is 0 unless the namespace of an earlier test still exists. If that test ran on
// the process's first thread, it exists until the process ends.
func TestKernelCountersCost(t *testing.T) {
	table := open(t)
	c := openCounters(t)
	const small, large, reals = 10, 1000, 10
	ops := bigTable(large, reals, kernel.IPv4)
	virtuals, others := ops[:large], ops[large:]
	for _, size := range []struct{ from, to int }{{0, small}, {small, large}} {
		apply(t, table, virtuals[size.from:size.to]...)
		apply(t, table, others[reals*size.from:reals*size.to]...)
		before := c.Stats()
		r := count(t, c)
		s := c.Stats()
		if len(r.Virtuals) != size.to || len(r.Reals) != reals*size.to {
			t.Errorf("%d virtual and %d real servers", len(r.Virtuals), len(r.Reals))
		}
		if s.Queries-before.Queries != 1 || s.Sends-before.Sends != 1 || s.Messages != before.Messages {
			t.Errorf("%d virtual servers: %+v after %+v, want one query", size.to, s, before)
		}
		t.Logf("%d virtual servers: %d receives, %d asked for", size.to, s.Receives-before.Receives, s.Getsockopts-before.Getsockopts)
	}
}

// Virtual servers of other network namespaces cause gaps in the text.
func TestKernelCountersBesideOtherNamespaces(t *testing.T) {
	apply(t, open(t), bigTable(300, 3, kernel.IPv4)...)
	t.Run("beside", func(t *testing.T) {
		table := open(t)
		apply(t, table, bigTable(300, 3, kernel.IPv4)...)
		c := openCounters(t)
		r := count(t, c)
		for tries := 0; tries < 20 && len(r.Virtuals) != 300; tries++ { // see TestKernelManyIPv6
			t.Logf("%d virtual servers of 300", len(r.Virtuals))
			time.Sleep(100 * time.Millisecond)
			r = count(t, c)
		}
		if len(r.Virtuals) != 300 || len(r.Reals) != 900 {
			t.Errorf("%d virtual and %d real servers, want 300 and 900", len(r.Virtuals), len(r.Reals))
		}
	})
}

func BenchmarkKernelCounters(b *testing.B) {
	table := open(b)
	apply(b, table, bigTable(5000, 10, kernel.IPv4)...)
	c := openCounters(b)
	for b.Loop() {
		count(b, c)
	}
}

func TestDecodeTraffic(t *testing.T) {
	for _, p := range answers(t, "services.hex") {
		if traffic, err := decodeTraffic(p, attrService); err != nil || traffic != (kernel.Traffic{}) {
			t.Errorf("%+v and %v, want zeros", traffic, err)
		}
	}
}

func TestParseTotal(t *testing.T) {
	got, err := parseTotal(strings.NewReader(`   Total Incoming Outgoing         Incoming         Outgoing
   Conns  Packets  Packets            Bytes            Bytes
       2       1F       10      1FFFFFFFFFF              F40

 Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s
       0        0        0                0                0
`))
	if want := (kernel.Traffic{Conns: 2, InPackets: 31, OutPackets: 16, InBytes: 1<<41 - 1, OutBytes: 0xF40}); err != nil || got != want {
		t.Errorf("%+v and %v", got, err)
	}
	for _, text := range []string{"", "a\nb\n", "a\nb\n1 2 3 4\n", "a\nb\n1 2 3 4 x\n"} {
		if _, err := parseTotal(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzDecodeTraffic(f *testing.F) {
	for _, p := range answers(f, "services.hex") {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) { decodeTraffic(p, attrService); decodeTraffic(p, attrDest) })
}

func FuzzParseTotal(f *testing.F) {
	f.Add([]byte("\n\n 2 1F 10 1FF F40\n"))
	f.Fuzz(func(t *testing.T, p []byte) { parseTotal(bytes.NewReader(p)) })
}
