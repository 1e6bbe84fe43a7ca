package frontend

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// noteHairpins notes the candidates of a port that are, or may be, on this node.
// Their conditions do not matter: an endpoint that drains has open connections.
func (l *lister) noteHairpins(p sources.Port) {
	for i := range l.found {
		if x := &l.found[i]; x.local || x.unplaced {
			l.hairpins = append(l.hairpins, Hairpin{x.backend(), kernel.Proto(p.Protocol)})
		}
	}
}
