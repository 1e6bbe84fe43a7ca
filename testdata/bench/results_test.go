package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources/file"
)

// What benchstat reads.
func TestBenchmarkLines(t *testing.T) {
	for _, c := range []struct {
		s    sample
		want string
	}{
		{
			sample{Row: "table to kernel, 1 %", By: "svcproxy", Size: "10x2", Family: "IPv4", Clock: "instructions", Nanos: 5, Kernel: 2, Allocs: 3, Bytes: 40, counts: counts{1, 2, 0}},
			"Benchmark/row=table_to_kernel_1_percent/by=svcproxy/size=10x2/family=IPv4 1 5 instr/op 2 in-netlink/op 1 syscalls/op 2 messages/op 0 execs/op 40 B/op 3 allocs/op",
		},
		{
			sample{Row: "process: version", By: "ipvsadm, same rules", Clock: "wall", Nanos: 7},
			"Benchmark/row=process_version/by=ipvsadm_same_rules 1 7 ns/op 0 syscalls/op 0 messages/op 0 execs/op",
		},
		{sample{Row: "resident", By: "svcproxy", Resident: 4096}, "Benchmark/row=resident/by=svcproxy 1 4096 resident-B"},
		{sample{Row: "refused: connections lost", By: "keepalived, set alike", Unit: "connections"}, "Benchmark/row=refused_connections_lost/by=keepalived_set_alike 1 0 connections"},
	} {
		if got := c.s.benchmark(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// A load's parts come in several stretches, which are one row.
func TestPartsOfALoad(t *testing.T) {
	var ops []kernel.Op
	for _, o := range []kernel.Object{kernel.Set{}, kernel.Entry{}, kernel.Virtual{}, kernel.Real{}, kernel.Entry{}, kernel.Addr{}} {
		ops = append(ops, kernel.Op{Object: o})
	}
	var parts []string
	var laps []sample
	for _, stretch := range runs(ops) {
		parts = append(parts, partOf(stretch[0]))
		laps = append(laps, sample{Row: "load " + partOf(stretch[0]), Nanos: int64(len(stretch))})
	}
	if got := strings.Join(parts, " "); got != "ipset ipvs ipset vips" {
		t.Errorf("stretches: %s", got)
	}
	got := merged(laps, 0)
	want := []sample{{Row: "load ipset", Nanos: 3}, {Row: "load ipvs", Nanos: 2}, {Row: "load vips", Nanos: 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Another run of the same must come to the same table: the file is what the tables say.
func TestChangedTablesLeaveTheFirstAlone(t *testing.T) {
	first := table(size{10, 3}, kernel.IPv6)
	before := text(first)
	one, all := text(oneWeighed(first, 2)), text(weighed(first, 1, 4))
	if text(first) != before {
		t.Error("a changed table changed the one it was made of")
	}
	if n := strings.Count(one, "weight"); n != 1 {
		t.Errorf("%d endpoints weighed, want one", n)
	}
	if n := strings.Count(all, "weight"); n != 30 {
		t.Errorf("%d endpoints weighed, want all 30", n)
	}
}

// The varied file has the services of the generated one.
func TestVariedFileSaysTheSame(t *testing.T) {
	all := table(size{300, 4}, kernel.IPv4)
	plain, _, problems := file.Decode("services.toml", []byte(text(all)))
	varied, _, more := file.Decode("services.toml", []byte(variedText(all)))
	if len(problems)+len(more) > 0 {
		t.Fatal(problems, more)
	}
	a, b := wanted(plain, kernel.Node{}), wanted(varied, kernel.Node{})
	if a.String() != b.String() {
		t.Errorf("the files differ in what they want")
	}
	lines, changed := strings.Split(variedText(all), "\n"), strings.Split(variedText(oneWeighed(all, 2)), "\n")
	if len(lines) != len(changed) {
		t.Fatalf("%d lines, and %d with another weight", len(lines), len(changed))
	}
	differ := 0
	for i := range lines {
		if lines[i] != changed[i] {
			differ++
		}
	}
	if differ != 1 {
		t.Errorf("another weight changes %d lines", differ)
	}
}

// What was lost before a fault, or served before its end, is not its.
func TestVisitorsCountFromAMoment(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	v := &visitors{lost: []time.Time{at(1), at(5), at(3)}, answered: map[string][]time.Time{"pod1": {at(9), at(2), at(8)}}}
	if n, _ := v.losses(at(2)); n != 2 {
		t.Errorf("%d losses, want those of 3 s and 5 s", n)
	}
	if last := v.lastLoss(); !last.Equal(at(5)) {
		t.Errorf("the last loss is %v", last.Sub(start))
	}
	if first, ok := v.servedBy("pod1", at(4)); !ok || !first.Equal(at(8)) {
		t.Errorf("served again at %v, %v", first.Sub(start), ok)
	}
	if _, ok := v.servedBy("pod1", at(9)); ok {
		t.Error("served after the last connection")
	}
}

// A fault's rows have a sample for each service and one of the worst.
func TestOutcomesOfAFault(t *testing.T) {
	p := &pass{scenario: scenario{by: "svcproxy", only: kernel.IPv4}, bench: &bench{}}
	p.outcomes("refused", []outcome{{2 * time.Second, time.Second, 7}, {time.Second, 3 * time.Second, 4}})
	p.bench.samples = p.samples
	for row, want := range map[string]int64{
		"detection, most": 2000, "recovery, most": 3000, "connections lost, most": 7, "connections lost": 4, "detection": 1000,
	} {
		if s, ok := p.bench.median(cell{row: "refused: " + row, by: "svcproxy"}); !ok || s.Number != want {
			t.Errorf("%s: %d, %v, want %d", row, s.Number, ok, want)
		}
	}
}
