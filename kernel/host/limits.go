package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nft"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// limits is the table of limits for clients, which is there beside whatever else writes sets and chains. A reading asks
// the kernel for nothing before it has nf_tables loaded.
type limits struct {
	names   kernel.Names
	dialer  *nl.Dialer
	table   *nft.Table // nil before it is needed
	refused *nft.Refusals
}

func (l *limits) open() (err error) {
	if l.table == nil {
		l.table, err = nft.OpenLimits(l.dialer, l.names, l.refused)
	}
	return err
}

// may reports whether there may be a table.
func (l *limits) may() (bool, error) {
	if l.table == nil && !moduleLoaded("nf_tables") {
		return false, nil
	}
	err := l.open()
	var missing *kernel.MissingError
	if errors.As(err, &missing) {
		return false, nil
	}
	return err == nil, err
}

// read adds the sets of the table to a reading.
func (l *limits) read(o *kernel.Observed) error {
	may, err := l.may()
	if !may {
		return err
	}
	sets, entries, err := l.table.ReadSets()
	if err != nil || len(sets) == 0 {
		return err
	}
	o.Sets = append(slices.Clone(o.Sets), sets...)
	o.Entries = o.Entries.Join(entries)
	return nil
}

// readChains adds its chains.
func (l *limits) readChains(o *kernel.Observed) error {
	may, err := l.may()
	if !may {
		return err
	}
	chains, err := l.table.ReadChains()
	o.Chains = append(slices.Clip(o.Chains), chains...)
	return err
}

// verify reports whether the sets of the table are as known.
func (l *limits) verify(known *kernel.State, has func(set string) bool) (bool, error) {
	may, err := l.may()
	own := l.of(known, true)
	if !may {
		return len(own.Sets) == 0, err
	}
	return l.table.VerifySets(own, has)
}

// of returns a state with the sets of the table alone, or with all others.
func (l *limits) of(s *kernel.State, own bool) *kernel.State {
	if !own && !slices.ContainsFunc(s.Sets, func(set kernel.Set) bool { return l.names.InLimits(set) }) {
		return s
	}
	some := *s
	some.Sets = slices.DeleteFunc(slices.Clone(s.Sets), func(set kernel.Set) bool { return l.names.InLimits(set) != own })
	return &some
}

// beside carries out the ops on the table of limits, and then the others by another adapter.
func (l *limits) beside(other adapter) adapter {
	return func(ctx context.Context, ops []kernel.Op) []error {
		var parts [2][]kernel.Op
		var at [2][]int
		for i, op := range ops {
			part := 1
			if l.names.InLimits(op.Object) {
				part = 0
			}
			parts[part], at[part] = append(parts[part], op), append(at[part], i)
		}
		if len(parts[0]) == 0 {
			return other(ctx, ops)
		}
		errs := make([]error, len(ops))
		for part, some := range parts {
			var failed []error
			switch {
			case len(some) == 0:
			case part == 0:
				failed = l.apply(some)
			default:
				failed = other(ctx, some)
			}
			for k, err := range failed {
				errs[at[part][k]] = err
			}
		}
		return errs
	}
}

func (l *limits) apply(ops []kernel.Op) []error {
	if err := l.open(); err != nil {
		return slices.Repeat([]error{fmt.Errorf("limits for clients: %w", err)}, len(ops))
	}
	return l.table.Apply(ops)
}

func (l *limits) Close() error {
	if l.table == nil {
		return nil
	}
	return l.table.Close()
}

// TryLimits reports whether the kernel takes rules of the table of limits. If not, the error is a *kernel.MissingError.
func (k *Kernel) TryLimits(chains []kernel.Chain) error {
	if err := k.limits.open(); err != nil {
		return err
	}
	return k.limits.table.Try(chains)
}
