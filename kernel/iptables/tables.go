package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Tables is the iptables of one network namespace. One goroutine at a time may use it, but any may
// call Stats.
type Tables struct {
	start    Start
	families []*family
	others   []*family // of the back ends that are not written
	bases    baseChains
	held     *nl.Conn // see Hold

	readers, writers, activity atomic.Uint64
}

// family is the tables of one family and the last reading of them.
type family struct {
	kernel.Family
	tool  Tool
	stamp stamp
	other bool // its back end is not written, its stamp may be nil and its tool missing

	contents             // valid while cached
	applied  []kernel.Op // since then
	lastID   string
	lastName kernel.Names
	cached   bool
}

// contents is what iptables-save shows of a family.
type contents struct {
	last     []kernel.Chain
	firewall []kernel.BaseChain // in the tables that it shows
	hidden   []string           // tables that it cannot show, see hides
	unshown  []kernel.Chain     // of another back end: our chains in these tables, without rules
}

// Stats counts runs of tools since Open.
type Stats struct {
	Readers  uint64 // iptables-save, and --version at Open
	Writers  uint64 // iptables-restore
	Activity uint64 // runs of both that have ended, and each second of a run
}

// Options of Open. The zero value is right for everything but tests and changes of user.
type Options struct {
	Find   Find       // nil: search PATH and the folders of system tools
	Dialer *nl.Dialer // nil: plain netlink sockets
	// Unwritten: package nft writes our rules, so neither back end is written, no tool is needed, and both are others.
	Unwritten bool
}

// Open probes iptables and ip6tables for the network namespace of the calling thread. If one of
// them cannot be used, the error is a *kernel.MissingError.
func Open(ctx context.Context, o Options) (*Tables, error) {
	if o.Find == nil {
		o.Find = find
	}
	t := &Tables{bases: baseChains{dialer: o.Dialer}}
	t.start = func(ctx context.Context, stdin string, argv ...string) Wait {
		end := t.active()
		wait := o.Find.start(ctx, stdin, argv...)
		return func() (string, error) {
			defer end()
			return wait()
		}
	}
	families := []kernel.Family{kernel.IPv4}
	if nl.HasIPv6() {
		families = append(families, kernel.IPv6)
	}
	for _, f := range families {
		if o.Unwritten {
			t.others = append(t.others, otherOf(f, Tool{}), otherOf(f, Tool{NFT: true}))
			t.bases.nft = append(t.bases.nft, f)
			continue
		}
		tool, err := t.probe(ctx, o.Find, f)
		if err != nil {
			t.Close()
			return nil, err
		}
		s, err := newStamp(f, tool, o.Dialer)
		if err != nil {
			t.Close()
			return nil, fmt.Errorf("opening %s: %w", tool, err)
		}
		t.families = append(t.families, &family{Family: f, tool: tool, stamp: s})
		t.others = append(t.others, otherOf(f, tool))
		if tool.NFT {
			t.bases.nft = append(t.bases.nft, f)
		}
	}
	return t, nil
}

// run is a Run.
func (t *Tables) run(ctx context.Context, stdin string, argv ...string) (string, error) {
	return t.start(ctx, stdin, argv...)()
}

// probe probes the iptables of a family. If it is the program of the first family under another
// name, the answer of that one counts.
func (t *Tables) probe(ctx context.Context, find Find, f kernel.Family) (Tool, error) {
	name := f.Tool()
	if len(t.families) > 0 {
		tool := t.families[0].tool
		first, err := find(tool.Name)
		second, err2 := find(name)
		if err == nil && err2 == nil && sameFile(first, second) {
			tool.Name = name
			return tool, nil
		}
	}
	t.readers.Add(1)
	defer t.active()()
	return probe(ctx, find, f)
}

// active counts activity each second until end is called. A running tool shows no progress. The
// count keeps the watchdog from ending svcproxy before the tool's own timeout ends the tool.
func (t *Tables) active() (end func()) {
	done := make(chan struct{})
	go func() {
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			select {
			case <-second.C:
				t.activity.Add(1)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		t.activity.Add(1)
	}
}

// Close releases the sockets.
func (t *Tables) Close() error {
	first := t.bases.Close()
	if t.held != nil {
		first = errors.Join(first, t.held.Close())
	}
	for _, f := range slices.Concat(t.families, t.others) {
		if f.stamp == nil {
			continue
		}
		if err := f.stamp.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Tools returns the tools that Open found, IPv4 first. Without IPv6 in the kernel there is only one.
func (t *Tables) Tools() []Tool {
	tools := make([]Tool, len(t.families))
	for i, f := range t.families {
		tools[i] = f.tool
	}
	return tools
}

// Stats returns the counts so far.
func (t *Tables) Stats() Stats {
	return Stats{Readers: t.readers.Load(), Writers: t.writers.Load(), Activity: t.activity.Load()}
}
