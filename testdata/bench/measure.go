package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A scenario is one way to do the work of some rows, on a node of its own. It runs
// once to be counted and some times to be timed.
type scenario struct {
	name, by string
	run      func(*bench, *pass) error
	outside  bool          // another process does the work: allocations are not counted
	only     kernel.Family // 0 is both
	clock    string        // "" is both
}

// A sample is one run of one row.
type sample struct {
	Row, By      string
	Size, Family string `json:",omitempty"`
	Clock        string
	Nanos        int64  // or instructions
	Kernel       int64  `json:",omitempty"` // of those, inside netlink system calls, where that is known
	Allocs       uint64 // of this program; 0 for other programs
	Bytes        uint64
	Resident     int64  `json:",omitempty"` // bytes of memory, for rows that measure nothing else
	Number       int64  `json:",omitempty"` // of what Unit says, likewise
	Unit         string `json:",omitempty"`
	counts
}

// bench is one run of this program.
type bench struct {
	options
	counters  *counters // of a pass that counts
	out       io.Writer
	samples   []sample
	countedAs map[cell]counts // by the pass that counts
	recorded  recording
}

// A pass is one run of a scenario.
type pass struct {
	scenario
	size     size
	family   kernel.Family
	counting bool
	bench    *bench
	node     *lab.Host
	wire     *wire
	samples  []sample
}

// measure runs a scenario once, to be counted or to be timed.
func (b *bench) measure(j job, counting bool) error {
	start := time.Now()
	p := &pass{scenario: j.scenario, size: j.size, family: j.family, counting: counting, bench: b, wire: newWire()}
	if err := p.counted(); err != nil {
		return err
	}
	if b.countedAs == nil {
		b.countedAs = map[cell]counts{}
	}
	for _, x := range p.samples {
		c := cell{x.Row, x.By, x.Size, x.Family}
		if counting {
			b.countedAs[c] = x.counts
			continue
		}
		x.counts = b.countedAs[c]
		b.samples = append(b.samples, x)
	}
	fmt.Fprintf(b.out, "%s %v %v: %v\n", j.name, j.size, j.family, time.Since(start).Round(time.Millisecond))
	return nil
}

// times is how often something of a size is timed. Instructions repeat to 2 %, large
// tables and full connection tracking take minutes, and wall time is what the machine
// leaves.
func (b *bench) times(sz size) int {
	switch {
	case b.repeat > 0:
		return b.repeat
	case sz == size{}:
		return 1 // the data path repeats what it measures by itself
	case b.clock == "wall":
		return 3
	case sz.services > 1000:
		return 1
	}
	return 2
}

// counted runs a scenario once, with counters if it is to be counted.
func (p *pass) counted() (err error) {
	if !p.counting {
		return p.once()
	}
	if p.bench.counters, err = openCounters(); err != nil {
		return err
	}
	defer p.bench.counters.close()
	return p.once()
}

// once runs a scenario once, in a namespace that is gone, and quiet, afterwards.
func (p *pass) once() error {
	l, err := lab.NewNode()
	if err != nil {
		return err
	}
	p.node = l.Node
	err = l.Node.Do(func() error { return p.scenario.run(p.bench, p) })
	if e := l.Close(); err == nil {
		err = e
	}
	debug.FreeOSMemory()
	settle()
	return err
}

// lap measures f as a row of the scenario's.
func (p *pass) lap(row string, f func() error) error { return p.lapBy(row, p.by, f) }

func (p *pass) lapBy(row, by string, f func() error) error {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x := p.sample(row, by)
	p.wire.inside = 0
	if p.counting {
		p.bench.counters.start()
	}
	start := time.Now()
	err := f()
	x.Nanos = time.Since(start).Nanoseconds()
	if p.counting {
		x.counts = p.bench.counters.stop()
	}
	x.Kernel = p.wire.inside.Nanoseconds()
	runtime.ReadMemStats(&after)
	if !p.outside {
		x.Allocs, x.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	}
	if err != nil {
		return fmt.Errorf("%s by %s: %w", row, by, err)
	}
	p.samples = append(p.samples, x)
	return nil
}

func (p *pass) sample(row, by string) sample {
	x := sample{Row: row, By: by, Clock: p.bench.clock}
	if p.size != (size{}) {
		x.Size = p.size.String()
	}
	if p.only == 0 {
		x.Family = p.family.String()
	}
	return x
}

// took adds a row that was measured elsewhere.
func (p *pass) took(row string, d time.Duration) {
	x := p.sample(row, p.by)
	x.Nanos = d.Nanoseconds()
	p.samples = append(p.samples, x)
}

// resident adds a row of memory, in KiB.
func (p *pass) resident(row string, kib int64) {
	x := p.sample(row, p.by)
	x.Resident = kib << 10
	p.samples = append(p.samples, x)
}

// number adds a row that counts something.
func (p *pass) number(row string, n int64, unit string) {
	x := p.sample(row, p.by)
	x.Number, x.Unit = n, unit
	p.samples = append(p.samples, x)
}

// settle waits until the machine has been idle for a second. Kernel threads tear down
// a namespace after its last user has gone, with pauses for RCU, and that work would
// count for the next measurement.
func settle() {
	const window, enough = 50 * time.Millisecond, 20
	deadline := time.Now().Add(30 * time.Second)
	for quiet := 0; quiet < enough && time.Now().Before(deadline); {
		before := idleTicks()
		time.Sleep(window)
		// A tick is 10 ms in /proc/stat: 4 of 5 at least on one processor.
		if idleTicks()-before >= 4 {
			quiet++
		} else {
			quiet = 0
		}
	}
}

func idleTicks() (n int64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var name string
	var user, nice, system int64
	fmt.Sscan(line, &name, &user, &nice, &system, &n)
	return n / int64(runtime.NumCPU())
}
