package ipset

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// open opens the sets of a new namespace.
func open(t testing.TB, d *nl.Dialer) *Sets {
	t.Helper()
	kerneltest.NewNamespace(t)
	s, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Available(); err != nil {
		t.Skip(err)
	}
	return s
}

// plan parses ops from text: a sign, and an object as `ipset save` prints it.
func plan(t testing.TB, text string) []kernel.Op {
	t.Helper()
	var ops []kernel.Op
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		op := kernel.Op{Verb: map[byte]kernel.Verb{'+': kernel.Add, '~': kernel.Change, '-': kernel.Remove}[line[0]]}
		words := strings.Fields(line[1:])
		if words[0] == "swap" {
			op.Object = kernel.Swap{From: words[1], To: words[2]}
			ops = append(ops, op)
			continue
		}
		o, err := kernel.ParseObserved(line[1:])
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Sets) == 1 {
			op.Object = o.Sets[0]
		} else {
			op.Object = o.Entries.Slice()[0]
		}
		ops = append(ops, op)
	}
	return ops
}

// apply fails the test at the first op that fails.
func apply(t testing.TB, s *Sets, ops []kernel.Op) {
	t.Helper()
	if err := kernel.Failures(ops, s.Apply(ops)); err != nil {
		t.Fatal(err)
	}
}

// read returns what our reader finds, as text.
func read(t testing.TB, s *Sets) string {
	t.Helper()
	sets, entries, err := s.Read(kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	return kernel.State{Sets: sets, Entries: entries}.String()
}

// saved returns what the ipset tool prints, without its own additions.
func saved(t testing.TB) string {
	t.Helper()
	o, err := kernel.ParseObserved(kerneltest.Run(t, "ipset", "save"))
	if err != nil {
		t.Fatal(err)
	}
	return kernel.State{Sets: o.Sets, Entries: o.Entries}.String()
}

const everything = `
	+ create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 1024
	+ add KUBE-CLUSTER-IP 10.96.0.20,tcp:80
	+ add KUBE-CLUSTER-IP 10.96.0.10,udp:53
	+ add KUBE-CLUSTER-IP 10.96.0.10,sctp:53
	+ create KUBE-6-CLUSTER-IP hash:ip,port family inet6 maxelem 4096
	+ add KUBE-6-CLUSTER-IP fd00:96::20,tcp:80
	+ create KUBE-LOOP-BACK hash:ip,port,ip family inet maxelem 1024
	+ add KUBE-LOOP-BACK 10.2.1.10,tcp:8080,10.2.1.10
	+ create KUBE-6-LOOP-BACK hash:ip,port,ip family inet6 maxelem 1024
	+ add KUBE-6-LOOP-BACK fd00:2::10,tcp:8080,fd00:2::10
	+ create KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net family inet maxelem 1024
	+ add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:443,198.51.100.0/24
	+ add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:443,198.51.100.7
	+ create KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port,net family inet6 maxelem 1024
	+ add KUBE-6-LOAD-BALANCER-SOURCE-CID 2001:db8::1,tcp:443,2001:db8:7::/48
	+ add KUBE-6-LOAD-BALANCER-SOURCE-CID 2001:db8::1,tcp:443,2001:db8:8::1
	+ create KUBE-IPVS-IPS hash:ip family inet maxelem 1024
	+ add KUBE-IPVS-IPS 10.96.0.20
	+ create KUBE-6-IPVS-IPS hash:ip family inet6 maxelem 1024
	+ add KUBE-6-IPVS-IPS fd00:96::20
	+ create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
	+ add KUBE-NODE-PORT-TCP 30080
	+ add KUBE-NODE-PORT-TCP 0
	+ add KUBE-NODE-PORT-TCP 65535
	+ create KUBE-6-NODE-PORT-TCP bitmap:port range 0-65535
	+ add KUBE-6-NODE-PORT-TCP 30080
`

func TestEveryTypeReadsBack(t *testing.T) {
	s := open(t, nil)
	ops := plan(t, everything)
	apply(t, s, ops)
	var want kernel.State
	for _, op := range ops {
		switch o := op.Object.(type) {
		case kernel.Set:
			want.Sets = append(want.Sets, o)
		case kernel.Entry:
			want.Entries = want.Entries.With(nil, []kernel.Entry{o})
		}
	}
	want.Sort()
	if got := read(t, s); got != want.String() {
		t.Errorf("we read\n%s\nwant\n%s", got, want)
	}
	if got := saved(t); got != want.String() {
		t.Errorf("ipset reads\n%s\nwant\n%s", got, want)
	}

	// Existing entries may be added again, and missing ones removed.
	apply(t, s, slices.DeleteFunc(slices.Clone(ops), func(op kernel.Op) bool { return op.Object.Kind() == kernel.KindSet }))
	if got := read(t, s); got != want.String() {
		t.Errorf("after adding all again:\n%s", got)
	}
	for range 2 {
		var removals []kernel.Op
		for e := range want.Entries.All() {
			removals = append(removals, kernel.Op{Verb: kernel.Remove, Object: e})
		}
		apply(t, s, removals)
	}
	want.Entries = kernel.Entries{}
	if got := read(t, s); got != want.String() {
		t.Errorf("after removing all entries:\n%s", got)
	}
	var destroy []kernel.Op
	for _, set := range want.Sets {
		destroy = append(destroy, kernel.Op{Verb: kernel.Remove, Object: set})
	}
	apply(t, s, destroy)
	if got := saved(t); got != "" {
		t.Errorf("after destroying all sets:\n%s", got)
	}
}

// The tool makes sets of the newest type revisions, with options that we never set.
func TestSetsMadeByTheTool(t *testing.T) {
	s := open(t, nil)
	for _, line := range []string{
		"create KUBE-CLUSTER-IP hash:ip,port comment counters timeout 600 maxelem 2048",
		"add KUBE-CLUSTER-IP 10.96.0.20,80 comment hello",
		"create KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net",
		"add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:443,198.51.100.0/24",
		"add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:443,198.51.100.7/32 nomatch",
		"create KUBE-NODE-PORT-TCP bitmap:port range 30000-32767",
		"add KUBE-NODE-PORT-TCP 30080",
		"create KUBE-NODE-PORT-UDP hash:net",
		"add KUBE-NODE-PORT-UDP 10.0.0.0/8",
		"create lists list:set",
		"add lists KUBE-NODE-PORT-UDP",
		"create KUBE-TMP-7 hash:ip family inet6 netmask 64 skbinfo forceadd",
		"create KUBERNETES hash:ip",
		"create blocklist hash:net",
		"add blocklist 203.0.113.0/24",
	} {
		kerneltest.Run(t, "ipset", strings.Fields(line)...)
	}
	const want = `create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 2048 timeout 600 counters comment
create KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net family inet maxelem 65536
create KUBE-NODE-PORT-TCP bitmap:port range 30000-32767
create KUBE-NODE-PORT-UDP hash:net family inet maxelem 65536 references 1
create KUBE-TMP-7 hash:ip family inet6 maxelem 65536 netmask 64 skbinfo forceadd
add KUBE-CLUSTER-IP 10.96.0.20,tcp:80
add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:443,198.51.100.0/24
add KUBE-NODE-PORT-TCP 30080
`
	if got := read(t, s); got != want {
		t.Errorf("read\n%s", got)
	}
	// Adding an exception makes it an ordinary entry again.
	apply(t, s, plan(t, "+ add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:443,198.51.100.7"))
	if got := kerneltest.Run(t, "ipset", "save"); strings.Contains(got, "nomatch") {
		t.Errorf("still an exception:\n%s", got)
	}
}

// The tool must be able to list our sets. It rejects revisions newer than itself.
func TestToolHandlesOurSets(t *testing.T) {
	s := open(t, nil)
	apply(t, s, plan(t, everything))
	kerneltest.Run(t, "ipset", "test", "KUBE-CLUSTER-IP", "10.96.0.10,sctp:53")
	kerneltest.Run(t, "ipset", "add", "KUBE-CLUSTER-IP", "10.96.0.11,sctp:53")
	kerneltest.Run(t, "ipset", "del", "KUBE-NODE-PORT-TCP", "30080")
	kerneltest.Run(t, "ipset", "test", "KUBE-LOAD-BALANCER-SOURCE-CIDR", "192.0.2.1,tcp:443,198.51.100.200")
	kerneltest.Run(t, "ipset", "flush")
	apply(t, s, plan(t, everything)[1:2])
}

func TestResize(t *testing.T) {
	s := open(t, nil)
	apply(t, s, plan(t, `
		+ create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 2
		+ add KUBE-CLUSTER-IP 10.0.0.1,tcp:80
		+ add KUBE-CLUSTER-IP 10.0.0.2,tcp:80`))
	apply(t, s, plan(t, `
		+ create KUBE-TMP-0 hash:ip,port family inet maxelem 1024
		+ add KUBE-TMP-0 10.0.0.1,tcp:80
		+ add KUBE-TMP-0 10.0.0.2,tcp:80
		+ add KUBE-TMP-0 10.0.0.3,tcp:80
		~ swap KUBE-TMP-0 KUBE-CLUSTER-IP
		- create KUBE-TMP-0 hash:ip,port family inet maxelem 1024`))
	const want = `create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 1024
add KUBE-CLUSTER-IP 10.0.0.1,tcp:80
add KUBE-CLUSTER-IP 10.0.0.2,tcp:80
add KUBE-CLUSTER-IP 10.0.0.3,tcp:80
`
	if got := saved(t); got != want {
		t.Errorf("ipset reads\n%s", got)
	}
}

// Each op of a plan gets its own error, and the others are carried out.
func TestErrorsByOp(t *testing.T) {
	s := open(t, nil)
	const text = `
		+ create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 4
		+ create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 4            # exists
		+ add KUBE-CLUSTER-IP 10.0.0.1,tcp:80
		+ add KUBE-CLUSTER-IP fd00::1,tcp:80                                   # does not accept
		+ add KUBE-CLUSTER-IP 10.0.0.2,tcp:80
		+ add KUBE-CLUSTER-IP 10.0.0.3,tcp:80
		+ add KUBE-CLUSTER-IP 10.0.0.4,tcp:80
		+ create KUBE-LOAD-BALANCER hash:ip,port family inet maxelem 2
		+ add KUBE-LOAD-BALANCER 10.0.0.1,tcp:80
		+ add KUBE-LOAD-BALANCER 10.0.0.2,tcp:80
		+ add KUBE-LOAD-BALANCER 10.0.0.3,tcp:80                               # full
		+ add KUBE-LOAD-BALANCER 10.0.0.1,tcp:80
		+ add KUBE-EXTERNAL-IP 10.0.0.1,tcp:80                                 # not exist
		+ add KUBE-EXTERNAL-IP 10.0.0.2,tcp:80                                 # not exist
		- add KUBE-CLUSTER-IP 10.9.9.9,tcp:80
		- create KUBE-EXTERNAL-IP hash:ip,port family inet maxelem 4           # not exist
		+ create KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net family inet maxelem 4
		+ add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:80,0.0.0.0/0         # prefix
		+ add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:80,10.0.0.0/8
		- add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:80,10.0.0.0/16
		+ create KUBE-IPVS-IPS hash:nonsense family inet maxelem 4             # no such set type
		+ create KUBE-A-NAME-THAT-HAS-MORE-THAN-31 hash:ip family inet maxelem 4 # longer than 31
		+ create KUBE-6-IPVS-IPS hash:ip family inet6 maxelem 4
		+ add KUBE-6-IPVS-IPS 10.0.0.1                                         # does not accept
		+ add KUBE-6-IPVS-IPS fd00::1
		+ create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
		+ add KUBE-NODE-PORT-TCP 10.0.0.1,tcp:80                               # does not accept`
	ops := plan(t, text)
	errs := s.Apply(ops)
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		_, want, bad := strings.Cut(line, " # ")
		if err := errs[i]; (err != nil) != bad || bad && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	for i, want := range map[int]error{1: unix.EEXIST, 3: unix.EINVAL, 10: unix.ENOSPC, 12: unix.ENOENT, 15: unix.ENOENT} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%s: %v, want %v", ops[i], errs[i], want)
		}
	}
	const state = `create KUBE-6-IPVS-IPS hash:ip family inet6 maxelem 4
create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 4
create KUBE-LOAD-BALANCER hash:ip,port family inet maxelem 2
create KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net family inet maxelem 4
create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
add KUBE-6-IPVS-IPS fd00::1
add KUBE-CLUSTER-IP 10.0.0.1,tcp:80
add KUBE-CLUSTER-IP 10.0.0.2,tcp:80
add KUBE-CLUSTER-IP 10.0.0.3,tcp:80
add KUBE-CLUSTER-IP 10.0.0.4,tcp:80
add KUBE-LOAD-BALANCER 10.0.0.1,tcp:80
add KUBE-LOAD-BALANCER 10.0.0.2,tcp:80
add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:80,10.0.0.0/8
`
	if got := read(t, s); got != state {
		t.Errorf("left\n%s", got)
	}
}

func TestSwapErrors(t *testing.T) {
	s := open(t, nil)
	ops := plan(t, `
		+ create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 4
		+ create KUBE-IPVS-IPS hash:ip family inet maxelem 4
		~ swap KUBE-CLUSTER-IP KUBE-IPVS-IPS
		~ swap KUBE-CLUSTER-IP KUBE-NOT-THERE
		~ swap KUBE-NOT-THERE KUBE-CLUSTER-IP`)
	errs := s.Apply(ops)
	for i, want := range []error{nil, nil, unix.EINVAL, unix.ENOENT, unix.ENOENT} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%s: %v, want %v", ops[i], errs[i], want)
		}
	}
}

// A set that could not be filled must not replace one in use. If it lacks only entries that no set
// can hold, it may.
func TestSwapNeedsAFilledSet(t *testing.T) {
	s := open(t, nil)
	const start = `
		+ create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 4
		+ add KUBE-CLUSTER-IP 10.0.0.1,tcp:80
		+ add KUBE-CLUSTER-IP 10.0.0.2,tcp:80`
	apply(t, s, plan(t, start))
	small := plan(t, `
		+ create KUBE-TMP-0 hash:ip,port family inet maxelem 1
		+ add KUBE-TMP-0 10.0.0.1,tcp:80
		+ add KUBE-TMP-0 10.0.0.2,tcp:80
		~ swap KUBE-TMP-0 KUBE-CLUSTER-IP
		- create KUBE-TMP-0 hash:ip,port family inet maxelem 1`)
	errs := s.Apply(small)
	if !errors.Is(errs[2], unix.ENOSPC) || !errors.Is(errs[3], ErrNotSwapped) || errs[4] != nil {
		t.Errorf("errors %v", errs)
	}
	const live = `create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 4
add KUBE-CLUSTER-IP 10.0.0.1,tcp:80
add KUBE-CLUSTER-IP 10.0.0.2,tcp:80
`
	if got := read(t, s); got != live {
		t.Errorf("left\n%s", got)
	}
	odd := plan(t, `
		+ create KUBE-TMP-0 hash:ip,port family inet maxelem 8
		+ add KUBE-TMP-0 fd00::1,tcp:80
		+ add KUBE-TMP-0 10.0.0.1,tcp:80
		+ add KUBE-TMP-0 10.0.0.2,tcp:80
		~ swap KUBE-TMP-0 KUBE-CLUSTER-IP
		- create KUBE-TMP-0 hash:ip,port family inet maxelem 8`)
	errs = s.Apply(odd)
	if !errors.Is(errs[1], unix.EINVAL) || errs[2] != nil || errs[4] != nil || errs[5] != nil {
		t.Errorf("errors %v", errs)
	}
	if got, want := read(t, s), strings.Replace(live, "maxelem 4", "maxelem 8", 1); got != want {
		t.Errorf("left\n%s", got)
	}
}

func TestSetInUse(t *testing.T) {
	s := open(t, nil)
	set := plan(t, "+ create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 4")
	apply(t, s, set)
	kerneltest.Run(t, "iptables", "-A", "INPUT", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
	set[0].Verb = kernel.Remove
	if err := s.Apply(set)[0]; !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "rules") {
		t.Errorf("destroying it: %v", err)
	}
}

// entries returns n ops for distinct entries.
func entries(set string, n int) []kernel.Op {
	ops := make([]kernel.Op, n)
	for i := range ops {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		ops[i].Object = kernel.Entry{Set: set, Addr: a, Proto: kernel.TCP, Port: uint16(80 + i%7)}
	}
	return ops
}

func TestSystemCalls(t *testing.T) {
	s := open(t, nil)
	const n = 30000
	apply(t, s, []kernel.Op{{Object: kernel.Set{Name: "KUBE-CLUSTER-IP", Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: kernel.Capacity(n)}}})
	ops := entries("KUBE-CLUSTER-IP", n)
	before := s.Stats()
	apply(t, s, ops)
	after := s.Stats()
	messages := int(after.Messages - before.Messages)
	calls := int(after.Sends - before.Sends + after.Receives - before.Receives)
	if most := 2*((messages+249)/250) + 8; calls > most {
		t.Errorf("%d entries in %d messages took %d system calls, want at most %d", n, messages, calls, most)
	}
	t.Logf("%d entries: %d messages, %d system calls", n, messages, calls)

	before = s.Stats()
	apply(t, s, plan(t, "- add KUBE-CLUSTER-IP 10.0.0.0,tcp:80"))
	after = s.Stats()
	if after.Sends-before.Sends != 1 || after.Receives-before.Receives != 1 || after.Queries != before.Queries {
		t.Errorf("one entry took %+v, then %+v", before, after)
	}
	sets, got, err := s.Read(kernel.DefaultNames)
	if err != nil || len(sets) != 1 || got.Len() != n-1 || !slices.IsSortedFunc(got.Slice(), kernel.Entry.Compare) {
		t.Errorf("read %d sets, %d entries, error %v", len(sets), got.Len(), err)
	}
}
