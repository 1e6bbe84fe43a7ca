package ipvs

import (
	"maps"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// limits are the virtual servers with a real server that has thresholds of connections. /proc/net/ip_vs does not have
// these, so such virtual servers are dumped. The first reading dumps all; later ones know what this Table applied and
// what it dumped. VerifyReals always dumps, so it finds thresholds that another program set since.
type limits struct {
	known bool // everything was dumped once
	of    map[kernel.VirtualKey]bool
}

// dumped notes the real servers of a virtual server as dumped.
func (l *limits) dumped(v kernel.VirtualKey, all []dest) {
	if slices.ContainsFunc(all, func(d dest) bool { return d.Upper != 0 || d.Lower != 0 }) {
		l.of[v] = true
	} else {
		delete(l.of, v)
	}
}

// applied notes a real server that is about to be added or changed. What is removed stays noted, since the
// kernel may refuse that; read forgets it.
func (l *limits) applied(verb kernel.Verb, r *kernel.Real) {
	if verb != kernel.Remove && (r.Upper != 0 || r.Lower != 0) {
		l.of[r.Key.Virtual] = true
	}
}

// read forgets the virtual servers that a complete reading does not have.
func (l *limits) read(virtuals []kernel.Virtual) {
	maps.DeleteFunc(l.of, func(k kernel.VirtualKey, _ bool) bool {
		_, found := kernel.FindVirtual(virtuals, k)
		return !found
	})
}
