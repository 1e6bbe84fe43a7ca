package frontend

import "slices"

// near returns the test for endpoints that topology hints allow this node to use.
// Hints count only if every ready endpoint has one and one that gets connections
// names this node or zone. Otherwise they would put all load on a few endpoints, or
// leave this node without any: one that is down or drained has weight 0. Hints apply
// to ready endpoints only.
func (l *lister) near() func(*candidate) bool {
	forNode := func(x *candidate) []string { return x.endpoint.NodeHints() }
	forZone := func(x *candidate) []string { return x.endpoint.ZoneHints() }
	switch {
	case l.hinted(forNode, l.Node.Name):
		return func(x *candidate) bool { return !x.ready || slices.Contains(x.endpoint.NodeHints(), l.Node.Name) }
	case l.hinted(forZone, l.Node.Zone):
		return func(x *candidate) bool { return !x.ready || slices.Contains(x.endpoint.ZoneHints(), l.Node.Zone) }
	}
	return func(*candidate) bool { return true }
}

// hinted reports whether every ready candidate has hints, and those of one that gets
// connections name this node or zone.
func (l *lister) hinted(hints func(*candidate) []string, here string) bool {
	if here == "" {
		return false
	}
	found := false
	for i := range l.found {
		x := &l.found[i]
		if !x.ready {
			continue
		}
		h := hints(x)
		if len(h) == 0 {
			return false
		}
		found = found || x.endpoint.Weight > 0 && slices.Contains(h, here)
	}
	return found
}
