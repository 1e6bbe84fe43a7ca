package iptables

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/svcproxy/svcproxy/kernel"
)

// Apply carries out ops, each of them on a kernel.Chain. The result has one error per op. Each
// family is one iptables-restore; with the nft back end both run at once, since their tables have
// nothing in common. It changes each table as a whole or not at all, so no packet sees
// half of a change. If a table is rejected, the faulty op gets the tool's error, and the others an
// error that they were not carried out. Earlier tables and the other family stay changed.
//
// A jump in op.Was that no longer exists makes the whole table fail, because the reading was stale.
// The next Read runs the tools, and the next plan is right.
//
// A chain of ours that a foreign rule jumps to cannot be removed. It is emptied, its op fails, and
// a second iptables-restore carries out the rest.
func (t *Tables) Apply(ctx context.Context, ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		errs[i] = t.unfit(op)
	}
	var writers []*writer
	for _, f := range t.families {
		ss := sections(f.Family, ops)
		if ss == nil {
			continue
		}
		w := &writer{tables: t, f: f, ss: ss, ops: ops, keep: make(map[int]bool), edits: f.editsOf(ops)}
		w.begin(ctx)
		if f.tool.NFT {
			writers = append(writers, w)
			continue
		}
		w.end(ctx, errs) // the legacy tools of both families take one lock, and wait for it in seconds
	}
	for _, w := range writers {
		w.end(ctx, errs)
		w.f.note(ops, errs)
	}
	return errs
}

// unfit returns why an op cannot be carried out here, or nil.
func (t *Tables) unfit(op kernel.Op) error {
	c, ok := op.Object.(kernel.Chain)
	switch {
	case !ok:
		return fmt.Errorf("a %s is not an iptables chain", op.Object.Kind())
	case !slices.Contains(tables, c.Table):
		return fmt.Errorf("table %q: want one of %s", c.Table, strings.Join(tables, ", "))
	}
	for _, f := range slices.Concat(t.families, t.others) {
		if f.Family == c.Family {
			return nil
		}
	}
	return errNoIPv6
}

// writer is the iptables-restore of a family that runs.
type writer struct {
	tables *Tables
	f      *family
	ss     []section
	ops    []kernel.Op
	keep   map[int]bool     // ops that empty a chain, and do not remove it
	edits  map[int][]string // instead of writing their chains as a whole, see editsOf
	in     *input
	wait   Wait
}

func (w *writer) begin(ctx context.Context) {
	w.f.cached = false
	w.in = write(w.ss, w.ops, w.keep, w.edits)
	w.tables.writers.Add(1)
	w.wait = w.tables.start(ctx, w.in.text.String(), w.f.tool.Name+"-restore", "--noflush",
		fmt.Sprintf("--wait=%d", lockWait))
}

// end waits, and sets the errors of ops that were not carried out.
func (w *writer) end(ctx context.Context, errs []error) {
	for {
		_, err := w.wait()
		if err == nil {
			return
		}
		at, ok := w.in.at(err)
		if !ok {
			spread(w.ss, errs, fmt.Errorf("%w: %w", kernel.ErrUnknownOutcome, err))
			return
		}
		w.ss = w.ss[at.section:]
		if at.op >= 0 && w.ops[at.op].Verb == kernel.Remove && !chainOf(w.ops[at.op]).BuiltIn() && !w.keep[at.op] {
			w.keep[at.op] = true
			errs[at.op] = fmt.Errorf("emptied, but a rule that is not ours still jumps to it: %w", err)
			w.begin(ctx)
			continue
		}
		if at.op >= 0 {
			errs[at.op] = err
		} else {
			spread(w.ss[:1], errs, err)
		}
		spread(w.ss, errs, fmt.Errorf("not carried out: %w", err))
		return
	}
}

// spread gives err to all ops of the sections that have no error yet.
func spread(ss []section, errs []error, err error) {
	for _, s := range ss {
		for _, i := range s.ops {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
}

// badLine finds the line number in the messages of all releases of iptables-restore: "line 3
// failed", "line 3: CHAIN_DEL failed (...)", "Error occurred at line: 3".
var badLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bline:? (\d+)`) })

// at returns the line of the input that a failed iptables-restore names.
func (in *input) at(err error) (line, bool) {
	var exit *ExitError
	if !errors.As(err, &exit) {
		return line{}, false
	}
	m := badLine().FindStringSubmatch(exit.Stderr)
	if m == nil {
		return line{}, false
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n < 1 || n > len(in.lines) {
		return line{}, false
	}
	return in.lines[n-1], true
}
