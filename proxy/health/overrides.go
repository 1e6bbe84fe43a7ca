package health

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Overrides are the orders of the operator that stand, sorted by selector and verb. A value: its methods return
// another one.
type Overrides []Override

// maxOverrides bounds the file and the time that Overlay takes.
const maxOverrides = 10000

// Add returns the overrides with one more. It replaces an earlier one for the same selector: a drain a drain or a
// disable, a weight a weight.
func (o Overrides) Add(n Override) (Overrides, error) {
	if err := n.check(); err != nil {
		return o, fmt.Errorf("%s %s: %w", n.Verb, n.Selector, err)
	}
	if n.Verb == Reweigh && n.Weight == (Weight{100, true}) { // the table's own: as if there was none
		kept, _ := o.remove(n.Selector, false)
		return kept, nil
	}
	kept, _ := o.remove(n.Selector, n.outs())
	if len(kept) >= maxOverrides {
		return o, fmt.Errorf("%s %s: there are %d overrides already", n.Verb, n.Selector, maxOverrides)
	}
	i, _ := slices.BinarySearchFunc(kept, n, compareOverrides)
	return slices.Insert(slices.Clone(kept), i, n), nil
}

// Undo takes back an order: undrain and enable with outs, else a weight. It is an error if there is none for this very
// selector; the error names those that cover it.
func (o Overrides) Undo(s Selector, outs bool) (Overrides, error) {
	kept, found := o.remove(s, outs)
	if found {
		return kept, nil
	}
	var covering []string
	for i := range o {
		if o[i].outs() == outs && o[i].covers(s) {
			covering = append(covering, o[i].Selector.String())
		}
	}
	what := "drained or disabled"
	if !outs {
		what = "given a weight"
	}
	if len(covering) > 0 {
		return o, fmt.Errorf("%s is %s by the override for %s: undo that one", s, what, strings.Join(covering, ", "))
	}
	return o, fmt.Errorf("%s is not %s", s, what)
}

func (o Overrides) remove(s Selector, outs bool) (kept Overrides, found bool) {
	at := func(x Override) bool { return x.Selector == s && x.outs() == outs }
	if !slices.ContainsFunc(o, at) {
		return o, false
	}
	return slices.DeleteFunc(slices.Clone(o), at), true
}

// covers reports whether an override is for all that a narrower selector is for, as far as the two alone can tell.
func (o *Override) covers(s Selector) bool {
	switch {
	case o.Service != "" && o.Service != s.Service:
		return false
	case o.Node != "":
		return o.Node == s.Node
	case o.Prefix.IsValid() && s.Prefix.IsValid():
		return o.Prefix.Bits() <= s.Prefix.Bits() && o.Prefix.Contains(s.Prefix.Addr())
	case o.Prefix.IsValid():
		return s.Addr.IsValid() && o.Prefix.Contains(s.Addr)
	}
	return o.Addr == s.Addr && (o.Port == 0 || o.Port == s.Port)
}

func compareOverrides(a, b Override) int {
	return cmp.Or(a.Selector.compare(b.Selector), strings.Compare(string(a.Verb), string(b.Verb)))
}

// keepUnmatched is how long an override stays for which no table has an endpoint.
const keepUnmatched = 24 * time.Hour

// Dropped is an override that is over, and why.
type Dropped struct {
	Override
	Because string
}

// Expire returns the overrides without those whose time is over. It returns o itself if there is none.
func (o Overrides) Expire(now time.Time) (kept Overrides, dropped []Dropped) {
	for _, x := range o {
		if x.Expired(now) {
			dropped = append(dropped, Dropped{x, "its time is over"})
		} else {
			kept = append(kept, x)
		}
	}
	if len(dropped) == 0 {
		return o, nil
	}
	return kept, dropped
}

// Prune returns what Expire does, without those that have had no endpoint in any table for 24 hours. It notes
// since when the others have had none. The table must have what all sources deliver. It returns o itself if
// nothing changes.
func (o Overrides) Prune(t sources.Table, now time.Time) (kept Overrides, dropped []Dropped) {
	current, dropped := o.Expire(now)
	matched := current.matched(t)
	changed := len(dropped) > 0
	for i, x := range current {
		switch {
		case matched[i]:
			changed = changed || !x.Unmatched.IsZero()
			x.Unmatched = time.Time{}
		case x.Unmatched.IsZero():
			x.Unmatched, changed = now, true
		case now.Sub(x.Unmatched) >= keepUnmatched:
			dropped, changed = append(dropped, Dropped{x, "no table had an endpoint for it for 24 hours"}), true
			continue
		}
		kept = append(kept, x)
	}
	if !changed {
		return o, nil
	}
	return kept, dropped
}

// matched says of each override whether the table has an endpoint for it.
func (o Overrides) matched(t sources.Table) []bool {
	found := make([]bool, len(o))
	if len(o) == 0 {
		return found
	}
	m := newMatcher(o, time.Time{})
	for i := range t.Services.Len() {
		s := t.Services.At(i)
		for j := range s.Endpoints {
			e := &s.Endpoints[j]
			for k := range e.Ports {
				for n := range m.all(s, e, e.Ports[k].Port) {
					found[n] = true
				}
			}
		}
	}
	return found
}

// errVersion is a file of a schema that this program does not know.
var errVersion = errors.New("unknown schema version")
