package iptables

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Tables are the iptables of one network namespace. One goroutine at a time may
// use them; only Stats may be called from any.
type Tables struct {
	run      Run
	families []*family
	bases    baseChains

	readers, writers, ended atomic.Uint64
}

// family is one family's tables and the last reading of them.
type family struct {
	kernel.Family
	tool  Tool
	stamp stamp

	last     []kernel.Chain   // valid while cached
	barriers []kernel.Barrier // likewise
	lastID   string
	lastName kernel.Names
	cached   bool
}

// Stats counts the tools that were run since Open.
type Stats struct {
	Readers uint64 // iptables-save, and --version at Open
	Writers uint64 // iptables-restore
	Ended   uint64 // of both, those that are over
}

// Options of Open. The zero is right for everything but tests.
type Options struct {
	Run    Run        // nil: run the tools
	Dialer *nl.Dialer // nil: plain netlink sockets
}

// Open probes iptables and ip6tables for the network namespace of the calling
// thread. Where one cannot be used the error is a *kernel.MissingError.
func Open(ctx context.Context, o Options) (*Tables, error) {
	t := &Tables{bases: baseChains{dialer: o.Dialer}}
	tool := o.Run
	if tool == nil {
		tool = run
	}
	t.run = func(ctx context.Context, stdin string, argv ...string) (string, error) {
		defer t.ended.Add(1)
		return tool(ctx, stdin, argv...)
	}
	families := []kernel.Family{kernel.IPv4}
	if hasIPv6() {
		families = append(families, kernel.IPv6)
	}
	for i, f := range families {
		tool, err := t.probe(ctx, f, i > 0 && o.Run == nil)
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
		if tool.NFT {
			t.bases.shown = append(t.bases.shown, f)
		}
	}
	return t, nil
}

// probe finds out about a family's iptables: by that of the first family, where
// they may be one program and are.
func (t *Tables) probe(ctx context.Context, f kernel.Family, maybe bool) (Tool, error) {
	if maybe && alike(t.families[0].tool.Name, toolNames[f]) {
		tool := t.families[0].tool
		tool.Name = toolNames[f]
		return tool, nil
	}
	t.readers.Add(1)
	return probe(ctx, t.run, f)
}

// Close releases the sockets.
func (t *Tables) Close() error {
	first := t.bases.Close()
	for _, f := range t.families {
		if err := f.stamp.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Tools are what was found at Open, IPv4 first; IPv6 is left out where the
// kernel has none.
func (t *Tables) Tools() []Tool {
	tools := make([]Tool, len(t.families))
	for i, f := range t.families {
		tools[i] = f.tool
	}
	return tools
}

// Stats may be called at any time from any goroutine.
func (t *Tables) Stats() Stats {
	return Stats{Readers: t.readers.Load(), Writers: t.writers.Load(), Ended: t.ended.Load()}
}

// Forget makes the next Read run iptables-save whatever the kernel says.
func (t *Tables) Forget() {
	for _, f := range t.families {
		f.cached = false
	}
}
