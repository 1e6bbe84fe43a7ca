package iptables

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
)

// Apply carries out ops, all of them on a kernel.Chain, and gives one error for
// each, nil where it succeeded. A family is one iptables-restore, each table of
// it all or nothing, so that no packet meets half of a change. When a table is
// refused, the op that is at fault has the tool's error and the others say that
// they were not carried out; tables before it, and the other family, stay
// changed.
//
// A jump in op.Was that is gone by now makes the table fail as a whole, too: the
// reading was stale, and the next Read, which will run the tools, puts it right.
//
// A chain of ours that a foreign rule jumps to cannot be removed. It is emptied,
// its op fails, and the rest is carried out by a second iptables-restore.
func (t *Tables) Apply(ctx context.Context, ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		errs[i] = t.unfit(op)
	}
	for _, f := range t.families {
		if ss := sections(f.Family, ops); ss != nil {
			t.apply(ctx, f, ss, ops, errs)
		}
	}
	return errs
}

// unfit is why an op is none of ours to carry out, nil if it is.
func (t *Tables) unfit(op kernel.Op) error {
	c, ok := op.Object.(kernel.Chain)
	switch {
	case !ok:
		return fmt.Errorf("a %s is not an iptables chain", op.Object.Kind())
	case c.Table != "nat" && c.Table != "filter":
		return fmt.Errorf("table %q: want nat or filter", c.Table)
	}
	for _, f := range t.families {
		if f.Family == c.Family {
			return nil
		}
	}
	return errNoIPv6
}

func (t *Tables) apply(ctx context.Context, f *family, ss []section, ops []kernel.Op, errs []error) {
	f.cached = false
	keep := make(map[int]bool)
	for {
		in := write(ss, ops, keep)
		t.writers.Add(1)
		_, err := t.run(ctx, in.text.String(), f.tool.Name+"-restore", "--noflush", fmt.Sprintf("--wait=%d", lockWait))
		if err == nil {
			return
		}
		at, ok := in.at(err)
		if !ok {
			spread(ss, errs, fmt.Errorf("%w: %w", kernel.ErrUnknownOutcome, err))
			return
		}
		ss = ss[at.section:]
		if at.op >= 0 && ops[at.op].Verb == kernel.Remove && !chainOf(ops[at.op]).BuiltIn() && !keep[at.op] {
			keep[at.op] = true
			errs[at.op] = fmt.Errorf("emptied, but a rule that is not ours still jumps to it: %w", err)
			continue
		}
		if at.op >= 0 {
			errs[at.op] = err
		} else {
			spread(ss[:1], errs, err)
		}
		spread(ss, errs, fmt.Errorf("not carried out: %w", err))
		return
	}
}

// spread gives err to all ops of the sections that have none yet.
func spread(ss []section, errs []error, err error) {
	for _, s := range ss {
		for _, i := range s.ops {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
}

// badLine finds the line in what the releases of iptables-restore say: "line 3
// failed", "line 3: CHAIN_DEL failed (...)", "Error occurred at line: 3".
var badLine = regexp.MustCompile(`\bline:? (\d+)`)

// at is the line of the input that a failed iptables-restore names.
func (in *input) at(err error) (line, bool) {
	var exit *ExitError
	if !errors.As(err, &exit) {
		return line{}, false
	}
	m := badLine.FindStringSubmatch(exit.Stderr)
	if m == nil {
		return line{}, false
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n < 1 || n > len(in.lines) {
		return line{}, false
	}
	return in.lines[n-1], true
}
