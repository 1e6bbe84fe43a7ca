// Command bench measures what svcproxy costs, and what the same work costs in other
// ways. These are the libraries one call at a time, the kernel's own tools,
// keepalived, and a program that only sends the same messages. The last is the
// lower bound.
//
// It runs in the test guest. Under `guest run --icount` one nanosecond is one
// instruction of user space or kernel, and figures repeat to about 2 %. Without it
// they are wall time. Every measurement has its own network namespace, because the
// kernel keeps deleted real servers for two minutes and they slow down each later
// one.
//
// Health checks of many targets are also measured on the machine itself (-clock
// native), because an emulated processor says nothing about shares of a core.
//
// Figures are only compared within one run. All of them come from the kernel's perf
// events, so they count the same for every program.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// options are the command line.
type options struct {
	clock    string // "instructions", "wall" or "native"
	sizes    []size
	families []kernel.Family
	run      *regexp.Regexp // of scenario names
	repeat   int            // 0 is as often as it takes
	rounds   int            // of the data path; 0 is as many as it takes
	dir      string         // for results
	name     string         // of the files there
	binary   string         // svcproxy; the build without API servers is next to it
}

// A size is how many services there are and how many endpoints each has.
type size struct{ services, endpoints int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.services, s.endpoints) }

// What health checks do takes its time, whatever it costs: under --icount that time
// passes as on a machine that nothing else disturbs.
func init() {
	health := func(name, by string, run func(*bench, *pass) error) {
		singles = append(singles, scenario{name: name, by: by, run: run, outside: true, only: kernel.IPv4, clock: "instructions"})
	}
	for _, c := range []healthChecker{svcproxyChecks, keepalivedAlike, keepalivedChecks} {
		health("outage", c.by, outage(c))
	}
	for _, sz := range upkeepSizes {
		health("upkeep", "svcproxy", upkeepOf(sz, upkeepBySvcproxy))
		health("upkeep", "keepalived", upkeepOf(sz, upkeepByKeepalived))
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == serverRole {
		if err := serveLoad(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	fs.StringVar(&o.clock, "clock", "instructions", "what a nanosecond is: instructions (under --icount) or wall; native measures health checks on this machine")
	sizes := fs.String("sizes", "", "services x endpoints of each, or all (none: 1000x10,5000x5, and 10000x10 in wall time)")
	families := fs.String("families", "IPv4,IPv6", "families of the services")
	only := fs.String("run", "", "scenarios to run, a regular expression of NAME or \"NAME: WAY\"")
	fs.IntVar(&o.repeat, "repeat", 0, "how often each is timed (0: three times in wall time, else twice, large tables and what has no size once)")
	fs.IntVar(&o.rounds, "rounds", 0, "how often each way of the data path is measured (0: 31 times in wall time, else twice), and how many changes soak and churn make (0: 600, and 60 or 20)")
	fs.StringVar(&o.dir, "out", os.Getenv("SVCPROXY_GUEST_OUT"), "folder for results")
	fs.StringVar(&o.name, "name", "", "name of the files of results (the clock's, if there is none)")
	fs.Parse(args)
	if o.name == "" {
		o.name = o.clock
	}
	switch {
	case *sizes == "all":
		*sizes = "1000x10,5000x5,10000x10,20000x5,50000x2"
	case *sizes == "" && o.clock == "wall":
		*sizes = "1000x10,5000x5,10000x10"
	case *sizes == "":
		*sizes = "1000x10,5000x5"
	}
	for s := range strings.SplitSeq(*sizes, ",") {
		var n size
		if _, err := fmt.Sscanf(s, "%dx%d", &n.services, &n.endpoints); err != nil {
			return o, fmt.Errorf("size %q: want SERVICESxENDPOINTS", s)
		}
		o.sizes = append(o.sizes, n)
	}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		if strings.Contains(*families, f.String()) {
			o.families = append(o.families, f)
		}
	}
	if o.run, err = regexp.Compile(*only); err != nil {
		return o, err
	}
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	o.binary = filepath.Join(filepath.Dir(self), "svcproxy")
	return o, nil
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	b := &bench{options: o, out: out}
	if o.clock == "native" {
		return b.natively()
	}
	if os.Getenv("SVCPROXY_GUEST") == "" {
		return fmt.Errorf("this fills the kernel's tables: run it in the guest, by `make bench`")
	}
	if err := stage(o.binary); err != nil {
		return err
	}
	if err := prepareCounters(); err != nil {
		return err
	}
	failed := b.all()
	if err := b.write(); err != nil {
		return err
	}
	b.table(out)
	b.gates(out)
	if failed > 0 {
		return fmt.Errorf("%d scenarios could not be measured", failed)
	}
	return nil
}

// A job is a scenario at one size and family.
type job struct {
	scenario
	size   size
	family kernel.Family
}

// all runs every scenario and says how many failed. In wall time the scenarios of a size are measured in turns, so that a
// disturbance longer than one of them affects all alike.
func (b *bench) all() (failed int) {
	var rest []job // of no size
	for _, sz := range b.sizes {
		var jobs []job
		for _, f := range b.families {
			for _, s := range slices.Concat(scenarios, modes()) {
				if sz.services <= largestCompared[b.clock] || slices.Contains(scaling, s.name) {
					jobs = append(jobs, job{s, sz, f})
				}
			}
		}
		failed += b.inTurns(jobs)
	}
	for _, f := range b.families {
		for _, s := range singles {
			rest = append(rest, job{s, size{}, f})
		}
	}
	return failed + b.inTurns(rest)
}

// inTurns measures each job once, then each once more, as often as it is timed. Instructions repeat, and floor needs what
// svcproxy sent last, so there a job is measured as often as needed before the next.
func (b *bench) inTurns(jobs []job) (failed int) {
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return !b.asks(j) })
	turns := [][]job{jobs}
	if b.clock == "instructions" {
		turns = nil
		for _, j := range jobs {
			turns = append(turns, []job{j})
		}
	}
	broken := map[string]bool{}
	for _, jobs := range turns {
		if len(jobs) == 0 {
			continue
		}
		for round := range 1 + b.times(jobs[0].size) {
			for _, j := range jobs {
				id := fmt.Sprint(j.name, j.by, j.size, j.family)
				if broken[id] {
					continue
				}
				if err := b.measure(j, round == 0); err != nil {
					failed++
					broken[id] = true
					fmt.Fprintf(b.out, "FAILED %s %v %v: %v\n", j.name, j.size, j.family, err)
				}
				b.write() // as far as it got; what goes wrong is said at the end
			}
		}
	}
	return failed
}

// asks reports whether a job is part of this run.
func (b *bench) asks(j job) bool {
	return (b.run.MatchString(j.name) || b.run.MatchString(j.name+": "+j.by)) && (j.only == 0 || j.only == j.family) && (j.clock == "" || j.clock == b.clock)
}

// Above this many services only the scenarios of scaling are run: one call at a time takes hours there. Wall time is
// measured four times.
var largestCompared = map[string]int{"instructions": 10000, "wall": 5000}

var scaling = []string{"loop", "keepalived", "program", "varied", "first"}

// scenarios are measured at every size in both families, singles once in each; floor
// replays what the first one sent. Those with which svcproxy's own work is compared
// count instructions alone, which repeat: wall time would say less, for half an hour more.
var (
	scenarios = []scenario{
		{name: "svcproxy", by: "svcproxy", run: (*bench).ours},
		{name: "floor", by: "floor", run: (*bench).floor, clock: "instructions"},
		{name: "loop", by: "svcproxy", run: (*bench).loop},
		{name: "library", by: "library", run: (*bench).library},
		{name: "tools", by: "tools", run: (*bench).tools, outside: true, clock: "instructions"},
		{name: "addresses", by: "library", run: (*bench).addresses, clock: "instructions"},
		{name: "keepalived", by: "keepalived", run: (*bench).keepalived, outside: true},
		{name: "values", by: "svcproxy", run: (*bench).values, clock: "instructions"},
		{name: "program", by: "svcproxy", run: (*bench).program, outside: true},
		{name: "varied", by: "svcproxy", run: (*bench).varied, outside: true},
		{name: "first", by: "svcproxy", run: (*bench).first, outside: true},
		{name: "haproxy", by: "haproxy", run: (*bench).haproxy, outside: true, clock: "wall"},
		{name: "lean", by: "svcproxy", run: (*bench).lean, outside: true, clock: "instructions"},
	}
	singles = slices.Concat(churnScenarios(), packetScenarios(), []scenario{
		{name: "flows", by: "svcproxy", run: (*bench).flows, clock: "instructions"},
		{name: "path", run: (*bench).path, outside: true, only: kernel.IPv4},
		{name: "boot", by: "svcproxy", run: (*bench).boots, outside: true, only: kernel.IPv4, clock: "wall"},
		{name: "big", by: "svcproxy", run: (*bench).big, only: kernel.IPv4, clock: "wall"},
		{name: "soak", by: "svcproxy", run: (*bench).soak, outside: true, only: kernel.IPv4, clock: "wall"},
		{name: "startup", by: "svcproxy", run: (*bench).startup, outside: true, only: kernel.IPv4},
	})
)
