package rules

import "slices"

// near gives the test for endpoints that topology hints let this node use. The hints are heeded when
// every ready endpoint has one and one is for here: with some missing, or none for here, they would put
// all load on a few, or leave this node with nothing. They are for ready endpoints alone.
func (l *listing) near() func(*candidate) bool {
	forNode := func(x *candidate) []string { return x.endpoint.NodeHints }
	forZone := func(x *candidate) []string { return x.endpoint.ZoneHints }
	switch {
	case l.hinted(forNode, l.node.Name):
		return func(x *candidate) bool { return !x.ready || slices.Contains(x.endpoint.NodeHints, l.node.Name) }
	case l.hinted(forZone, l.node.Zone):
		return func(x *candidate) bool { return !x.ready || slices.Contains(x.endpoint.ZoneHints, l.node.Zone) }
	}
	return func(*candidate) bool { return true }
}

// hinted says whether every ready candidate has hints and one of them is here.
func (l *listing) hinted(hints func(*candidate) []string, here string) bool {
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
		found = found || slices.Contains(h, here)
	}
	return found
}
